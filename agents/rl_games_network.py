# SPDX-License-Identifier: BSD-3-Clause
"""The network for RL-Games: the encoders, perceptrons and normalizers that RSL-RL gets, in one module.

Actor and critic share nothing. The critic reads the privileged group, as with RSL-RL. RL-Games' own way to that, a
central value network, would have its own optimizer, learning rate and epochs.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from rl_games.algos_torch import model_builder
from torch import Tensor, nn

from isaaclab_pc.agents.networks import ObservationEncoder, RunningNorm, StatePredictor, make_mlp

__all__ = ["NETWORK", "PointCloudNetwork", "register"]

NETWORK = "isaaclab_pc_point_cloud"
"""Name under which RL-Games knows the network."""


def register() -> None:
    """Make RL-Games know the network."""
    model_builder.register_network(NETWORK, _Builder)


class PointCloudNetwork(nn.Module):
    """Actor and critic over dictionaries of observation groups."""

    def __init__(
        self,
        shapes: Mapping[str, Sequence[int]],
        num_actions: int,
        *,
        actor: Sequence[str],
        critic: Sequence[str],
        encoder: Mapping[str, Any],
        actor_hidden: Sequence[int],
        critic_hidden: Sequence[int],
        activation: str,
        init_std: float,
        aux_coef: float,
    ) -> None:
        """Create the networks.

        Args:
            shapes: Shape of one observation of each group, without the batch dimension.
            num_actions: Size of an action, A.
            actor: Groups that the policy reads.
            critic: Groups that the critic reads, vectors only.
            encoder: Fields of :class:`~isaaclab_pc.agents.ppo.EncoderSettings`.
            actor_hidden: Hidden layers of the policy, after the encoders.
            critic_hidden: Hidden layers of the critic.
            activation: Activation of the hidden layers.
            init_std: Standard deviation of the actions at the start.
            aux_coef: Weight of the loss that makes the latent predict what the critic reads; 0 leaves the head out.
        """
        super().__init__()
        self.actor_vectors = [name for name in actor if len(shapes[name]) == 1]
        self.critic_vectors = list(critic)
        actor_dim = sum(shapes[name][0] for name in self.actor_vectors)
        critic_dim = sum(shapes[name][0] for name in self.critic_vectors)

        self.encoder = ObservationEncoder({name: shapes[name] for name in actor}, **encoder)
        self.actor_norm = RunningNorm(actor_dim)
        self.critic_norm = RunningNorm(critic_dim)

        latent_dim = actor_dim + self.encoder.latent_dim
        self.actor = make_mlp(latent_dim, actor_hidden, num_actions, activation)
        self.critic = make_mlp(critic_dim, critic_hidden, 1, activation)
        self.log_std = nn.Parameter(torch.full((num_actions,), init_std).log())

        # A policy that reads vectors alone has no encoder to teach.
        use_predictor = aux_coef > 0.0 and self.encoder.latent_dim > 0
        self.predictor = StatePredictor(latent_dim, critic_dim, aux_coef) if use_predictor else None

    def clipping_groups(self) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
        """Return the parameters of the actor, encoders included, and those of the critic.

        Our runner clips the gradient of each group by its own norm, as RSL-RL does.
        """
        critic = list(self.critic.parameters())
        critic_ids = {id(parameter) for parameter in critic}
        actor = [parameter for parameter in self.parameters() if id(parameter) not in critic_ids]
        return actor, critic

    def forward(self, input_dict: Mapping[str, Any]) -> tuple[Tensor, Tensor, Tensor, None]:
        """Compute what RL-Games asks for, and update the normalizers.

        Args:
            input_dict: ``obs``, the observation groups by name, and ``is_train``: whether this is an update (the
                normalizers count the samples) or a rollout (they start to use what they have counted).

        Returns:
            Mean (B, A) and logarithm of the standard deviation (B, A) of the actions, value (B, 1), no memory.
        """
        obs = input_dict["obs"]
        state = _concatenate(obs, self.critic_vectors)
        if input_dict.get("is_train", True):
            self._count_samples(obs, state)
        else:
            self._use_counted_samples()

        latent = self._latent(obs)
        if self.predictor is not None and torch.is_grad_enabled():
            latent = self.predictor(latent, state)

        mean = self.actor(latent)
        value = self.critic(self.critic_norm(state))
        return mean, self.log_std.expand_as(mean), value, None

    def is_rnn(self) -> bool:
        """Tell RL-Games that there is no memory."""
        return False

    def get_aux_loss(self) -> None:
        """Return nothing: the auxiliary loss is part of the policy's own backward pass."""

    def _latent(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Concatenate the normalized vectors and the encoded groups, (B, D)."""
        return torch.cat([self.actor_norm(_concatenate(obs, self.actor_vectors)), *self.encoder(obs)], dim=-1)

    def _count_samples(self, obs: Mapping[str, Tensor], state: Tensor) -> None:
        """Add a minibatch to the normalizers' statistics; every epoch adds each sample once, so all weigh alike."""
        self.actor_norm.add_samples(_concatenate(obs, self.actor_vectors))
        self.critic_norm.add_samples(state)
        if self.predictor is not None:
            self.predictor.norm.add_samples(state)

    def _use_counted_samples(self) -> None:
        """Normalize this rollout and the next update with all samples up to the last update."""
        self.actor_norm.apply_samples()
        self.critic_norm.apply_samples()
        if self.predictor is not None:
            self.predictor.norm.apply_samples()


class _Builder:
    """Makes the network, behind the interface that RL-Games' registry asks for."""

    def load(self, params: Mapping[str, Any]) -> None:
        """Keep the ``network`` section of the configuration."""
        self._params = {key: value for key, value in params.items() if key != "name"}

    def build(self, name: str, *, input_shape: Mapping[str, Sequence[int]], actions_num: int, **_: Any) -> nn.Module:
        """Create the network for an environment's spaces."""
        return PointCloudNetwork(input_shape, actions_num, **self._params)


def _concatenate(obs: Mapping[str, Tensor], names: Sequence[str]) -> Tensor:
    """Concatenate vectors, (B, D)."""
    return torch.cat([obs[name] for name in names], dim=-1)
