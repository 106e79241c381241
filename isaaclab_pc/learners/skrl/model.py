# SPDX-License-Identifier: BSD-3-Clause
"""The network for skrl: actor and critic as the one model that its agent asks in both roles."""

from collections.abc import Mapping
from typing import Any

import gymnasium
import torch
from skrl.models.torch import GaussianMixin, Model
from torch import Tensor, nn

from isaaclab_pc.agents.actor_critic import ActorCritic


class PointCloudModel(GaussianMixin, Model):
    """Actor over observations and critic over states, each a dictionary of observation groups.

    In the role ``policy`` both are computed, and the value is kept for the role ``value`` that follows, as skrl's own
    shared models do.
    """

    def __init__(
        self,
        *,
        observation_space: gymnasium.spaces.Dict,
        state_space: gymnasium.spaces.Dict,
        action_space: gymnasium.Space,
        device: str | torch.device,
        **network: Any,
    ) -> None:
        """Create the networks; ``network``: settings of :class:`~isaaclab_pc.agents.actor_critic.ActorCritic`."""
        spaces = {"observation_space": observation_space, "state_space": state_space, "action_space": action_space}
        Model.__init__(self, **spaces, device=device)
        GaussianMixin.__init__(self, clip_log_std=False)

        groups = {**observation_space.spaces, **state_space.spaces}
        shapes = {name: space.shape or () for name, space in groups.items()}
        self.actor_groups = list(observation_space)
        self.network = ActorCritic(shapes, self.num_actions, **network)
        self._value: Tensor | None = None

    def forward(self, obs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:  # type: ignore[override]
        """Compute mean (B, A), logarithm of the standard deviation (B, A) and value (B, 1), and update the normalizers.

        In training mode, which skrl turns on for an update, they count the samples; a rollout uses the counts.
        """
        if self.training:
            # Every epoch adds each sample once, so all weigh alike.
            self.network.count_samples(obs)
        else:
            self.network.use_counted_samples()
        return self.network(obs)  # type: ignore[no-any-return]

    def compute(self, inputs: Mapping[str, Any], role: str = "") -> tuple[Tensor, dict[str, Tensor]]:
        """Return the mean of the actions (B, A) and the logarithm of their standard deviation; skrl samples."""
        mean, log_std, self._value = self({**inputs["states"], **inputs["observations"]})
        return mean, {"log_std": log_std}

    def act(self, inputs: Mapping[str, Any], *, role: str = "") -> tuple[Tensor, dict[str, Any]]:
        """Sample actions (B, A), or return values (B, 1); see skrl's ``Model.act``."""
        if role != "value":
            return super().act(dict(inputs), role=role)

        value, self._value = self._value, None
        return (self.network.value(inputs["states"]) if value is None else value), {}

    def policy(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Compute the mean of the actions, (B, A), from the actor's groups; nothing is changed."""
        return self.network.policy(obs)

    def clipping_groups(self) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
        """Return the parameters of actor and critic."""
        return self.network.clipping_groups()
