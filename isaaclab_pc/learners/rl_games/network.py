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
from isaaclab_pc.agents.networks import State, forget, initial_state, run_rnn

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
        """Create the networks of :class:`~isaaclab_pc.agents.actor_critic.ActorCritic` for N environments in a rollout.

        ``rnn_type`` is the memory between the policy's encoders and its perceptron: ``gru``, ``lstm``, or None. It has
        M layers of size H.
        """
        super().__init__(shapes, num_actions, memory_dim=rnn_hidden_dim if rnn_type else None, **settings)
        self.memory: nn.GRU | nn.LSTM | None = None
        if rnn_type is not None:
            kind = {"gru": nn.GRU, "lstm": nn.LSTM}[rnn_type]
            self.memory = kind(self.latent_dim, rnn_hidden_dim, rnn_num_layers)

        self._num_envs = num_envs
        self._acting: State | None = None

    def forward(  # type: ignore[override]
        self, input_dict: Mapping[str, Any]
    ) -> tuple[Tensor, Tensor, Tensor, State | None]:
        """Return mean (B, A) and logarithm of the standard deviation (B, A) of the actions, value (B, 1), and memory.

        It is given ``obs``, the observation groups by name, and ``is_train``: whether this is an update, in which the
        normalizers count the samples, or a rollout, which uses the counts. With a memory there are also ``rnn_states``
        and, in an update, ``seq_length`` and ``dones``: if an episode began at a sample, (B,).
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

        state = self._acting or self.initial_state(len(next(iter(obs.values()))))
        actions, self._acting = self.act_from(obs, state)
        return actions

    def initial_state(self, batch: int) -> State:
        """Return the memory before the first step of an episode, for a number of environments."""
        assert self.memory is not None
        return initial_state(self.memory, batch)

    def act_from(self, obs: Mapping[str, Tensor], state: State) -> tuple[Tensor, State]:
        """Return the actions (B, A) of :meth:`policy` and the memory after them; nothing is changed."""
        assert self.memory is not None
        remembered, after = run_rnn(self.memory, self.next_latent(obs)[None], state)
        return self.actor(remembered[0]), after

    def reset(self, dones: Tensor | None = None) -> None:
        """Forget what :meth:`policy` saw in environments (B,), bool, or in all."""
        self._acting = forget(self._acting, dones)

    def is_rnn(self) -> bool:
        """Tell RL-Games whether there is a memory."""
        return self.memory is not None

    def get_default_rnn_state(self) -> State:
        """Return the memory before the first step: one tensor (M, N, H), two for an LSTM."""
        return self.initial_state(self._num_envs)

    def _remember(self, latent: Tensor, states: State, began: Tensor | None = None) -> tuple[Tensor, State]:
        """Pass sequences (T, S, D) through the memory (M, S, H), forgotten where episodes ``began``, (T, S), bool."""
        assert self.memory is not None
        steps = latent.shape[0]
        cuts = [0, steps]
        if began is not None:
            begins = began[1:].any(dim=1).tolist()
            cuts = [0, *(step for step, begin in enumerate(begins, start=1) if begin), steps]

        parts = []
        for start, end in itertools.pairwise(cuts):
            if began is not None:
                states = tuple(torch.where(began[start, :, None], 0.0, state) for state in states)
            part, states = run_rnn(self.memory, latent[start:end], states)
            parts.append(part)
        return torch.cat(parts), states

    def get_aux_loss(self) -> None:
        """Return nothing: the auxiliary loss is part of the policy's own backward pass."""


class _Builder:
    """Makes the network, behind the interface that RL-Games' registry asks for."""

    def load(self, params: Mapping[str, Any]) -> None:
        self._params = {key: value for key, value in params.items() if key != "name"}

    def build(
        self, name: str, *, input_shape: Mapping[str, Sequence[int]], actions_num: int, num_seqs: int = 1, **_: Any
    ) -> nn.Module:
        return PointCloudNetwork(input_shape, actions_num, num_envs=num_seqs, **self._params)
