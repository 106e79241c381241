# SPDX-License-Identifier: BSD-3-Clause
"""The network for RL-Games: actor and critic behind its interface.

RL-Games' own way to a critic that reads something else, a central value network, would have its own optimizer, learning
rate and epochs.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
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
    """Actor and critic over dictionaries of observation groups, the actor with a memory where it is to have one."""

    def __init__(
        self,
        shapes: Mapping[str, Sequence[int]],
        num_actions: int,
        *,
        num_envs: int = 1,
        rnn_type: str | None = None,
        rnn_hidden_dim: int = 256,
        rnn_num_layers: int = 1,
        **settings: Any,
    ) -> None:
        """Create the networks.

        Args:
            shapes: Shape of one observation of each group, without the batch dimension.
            num_actions: Size of an action, A.
            num_envs: Environments of a rollout, N.
            rnn_type: Memory between the policy's encoders and its perceptron: ``gru``, ``lstm``, or None.
            rnn_hidden_dim: Size of the memory, H.
            rnn_num_layers: Layers of the memory, M.
            **settings: The other arguments of :class:`~isaaclab_pc.agents.actor_critic.ActorCritic`.
        """
        super().__init__(shapes, num_actions, memory_dim=rnn_hidden_dim if rnn_type else None, **settings)
        self.is_recurrent = rnn_type is not None
        self.memory: nn.GRU | nn.LSTM | None = None
        if rnn_type is not None:
            kind = {"gru": nn.GRU, "lstm": nn.LSTM}[rnn_type]
            self.memory = kind(self.latent_dim, rnn_hidden_dim, rnn_num_layers)

        self._state_shape = (rnn_num_layers, num_envs, rnn_hidden_dim)
        self._acting: tuple[Tensor, ...] | None = None

    def forward(  # type: ignore[override]
        self, input_dict: Mapping[str, Any]
    ) -> tuple[Tensor, Tensor, Tensor, tuple[Tensor, ...] | None]:
        """Compute what RL-Games asks for, and update the normalizers.

        Args:
            input_dict: ``obs``, the observation groups by name, and ``is_train``: whether this is an update (the
                normalizers count the samples) or a rollout (they start to use what they have counted). With a memory
                also ``rnn_states``, and in an update, whose samples are sequences one after the other, ``seq_length``
                and ``dones``: whether an episode began at a sample, (B,).

        Returns:
            Mean (B, A) and logarithm of the standard deviation (B, A) of the actions, value (B, 1), and the memory.
        """
        obs = input_dict["obs"]
        is_update = input_dict.get("is_train", True)
        if is_update:
            # Every epoch adds each sample once, so all weigh alike.
            self.count_samples(obs)
        else:
            self.use_counted_samples()
        if self.memory is None:
            return *super().forward(obs), None

        steps = input_dict["seq_length"] if is_update else 1
        latent = self.latent(obs).unflatten(0, (-1, steps)).transpose(0, 1)
        began = input_dict["dones"].bool().view(-1, steps).t() if is_update else None
        remembered, states = self._remember(latent, tuple(input_dict["rnn_states"]), began)
        return *self.distribution(remembered.transpose(0, 1).flatten(0, 1)), self.value(obs), states

    def policy(self, obs: Mapping[str, Tensor]) -> Tensor:
        """As in the base class; a memory is that of the policy's own acting, apart from a rollout's."""
        if self.memory is None:
            return super().policy(obs)

        latent = self.next_latent(obs)[None]
        states = self._acting or self._fresh_states(latent.shape[1], latent.device)
        remembered, self._acting = self._remember(latent, states)
        actions: Tensor = self.actor(remembered[0])
        return actions

    def reset(self, dones: Tensor | None = None) -> None:
        """Forget what :meth:`policy` saw.

        Args:
            dones: Environments that forget, shape (B,), bool; None: all do.
        """
        if dones is None or self._acting is None:
            self._acting = None
        else:
            self._acting = tuple(torch.where(dones[:, None], 0.0, state) for state in self._acting)

    def is_rnn(self) -> bool:
        """Tell RL-Games whether there is a memory."""
        return self.is_recurrent

    def get_default_rnn_state(self) -> tuple[Tensor, ...]:
        """Return the memory before the first step: one tensor (M, N, H), two for an LSTM."""
        return self._fresh_states(self._state_shape[1], self.log_std.device)

    def _fresh_states(self, num_envs: int, device: torch.device) -> tuple[Tensor, ...]:
        layers, _, size = self._state_shape
        count = 2 if isinstance(self.memory, nn.LSTM) else 1
        return tuple(torch.zeros(layers, num_envs, size, device=device) for _ in range(count))

    def _remember(
        self, latent: Tensor, states: tuple[Tensor, ...], began: Tensor | None = None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Pass sequences through the memory.

        Args:
            latent: What was seen, (T, S, D).
            states: The memory at the first step, each (M, S, H).
            began: Where an episode began, (T, S), bool, and all before is forgotten; None: nowhere.

        Returns:
            What is remembered at each step, (T, S, H), and the memory after the last one.
        """
        assert self.memory is not None
        steps = latent.shape[0]
        cuts = [0, steps]
        if began is not None:
            cuts = [0, *(began[1:].any(dim=1).nonzero()[:, 0] + 1).tolist(), steps]

        parts = []
        for start, end in itertools.pairwise(cuts):
            if began is not None:
                states = tuple(torch.where(began[start, :, None], 0.0, state) for state in states)
            before: Any = states if isinstance(self.memory, nn.LSTM) else states[0]
            part, after = self.memory(latent[start:end], before)
            states = after if isinstance(after, tuple) else (after,)
            parts.append(part)
        return torch.cat(parts), states

    def get_aux_loss(self) -> None:
        """Return nothing: the auxiliary loss is part of the policy's own backward pass."""


class _Builder:
    """Makes the network, behind the interface that RL-Games' registry asks for."""

    def load(self, params: Mapping[str, Any]) -> None:
        """Keep the ``network`` section of the configuration."""
        self._params = {key: value for key, value in params.items() if key != "name"}

    def build(
        self, name: str, *, input_shape: Mapping[str, Sequence[int]], actions_num: int, num_seqs: int = 1, **_: Any
    ) -> nn.Module:
        """Create the network for an environment's spaces."""
        return PointCloudNetwork(input_shape, actions_num, num_envs=num_seqs, **self._params)
