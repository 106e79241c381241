# SPDX-License-Identifier: BSD-3-Clause
"""The network for RL-Games: actor and critic behind its interface.

RL-Games' own way to a critic that reads something else, a central value network, would have its own optimizer, learning
rate and epochs.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rl_games.algos_torch import model_builder
from torch import Tensor, nn

from isaaclab_pc.agents.actor_critic import ActorCritic

__all__ = ["NETWORK", "PointCloudNetwork", "register"]

NETWORK = "isaaclab_pc_point_cloud"
"""Name under which RL-Games knows the network."""


def register() -> None:
    """Make RL-Games know the network."""
    model_builder.register_network(NETWORK, _Builder)


class PointCloudNetwork(ActorCritic):
    """Actor and critic over dictionaries of observation groups."""

    def forward(self, input_dict: Mapping[str, Any]) -> tuple[Tensor, Tensor, Tensor, None]:  # type: ignore[override]
        """Compute what RL-Games asks for, and update the normalizers.

        Args:
            input_dict: ``obs``, the observation groups by name, and ``is_train``: whether this is an update (the
                normalizers count the samples) or a rollout (they start to use what they have counted).

        Returns:
            Mean (B, A) and logarithm of the standard deviation (B, A) of the actions, value (B, 1), no memory.
        """
        if input_dict.get("is_train", True):
            # Every epoch adds each sample once, so all weigh alike.
            self.count_samples(input_dict["obs"])
        else:
            self.use_counted_samples()

        return *super().forward(input_dict["obs"]), None

    def is_rnn(self) -> bool:
        """Tell RL-Games that there is no memory."""
        return False

    def get_aux_loss(self) -> None:
        """Return nothing: the auxiliary loss is part of the policy's own backward pass."""


class _Builder:
    """Makes the network, behind the interface that RL-Games' registry asks for."""

    def load(self, params: Mapping[str, Any]) -> None:
        """Keep the ``network`` section of the configuration."""
        self._params = {key: value for key, value in params.items() if key != "name"}

    def build(self, name: str, *, input_shape: Mapping[str, Sequence[int]], actions_num: int, **_: Any) -> nn.Module:
        """Create the network for an environment's spaces."""
        return PointCloudNetwork(input_shape, actions_num, **self._params)
