# SPDX-License-Identifier: BSD-3-Clause
"""Actor and critic in one module, for the libraries that want it so. Torch only.

They share nothing. The critic reads the privileged group, as with RSL-RL.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from isaaclab_pc.agents.networks import ObservationEncoder, RunningNorm, StatePredictor, make_mlp
from isaaclab_pc.agents.ppo import EncoderSettings


class ActorCritic(nn.Module):
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
        memory_dim: int | None = None,
    ) -> None:
        """Create the networks; the settings come from :meth:`isaaclab_pc.agents.ppo.PpoSettings.network`.

        ``shapes`` are those of one observation of each group, without the batch dimension, and ``num_actions`` is A.
        The critic reads vectors alone. ``memory_dim`` is the input size of the policy's perceptron, where a subclass
        puts a memory before it.
        """
        super().__init__()
        self.actor_groups = list(actor)
        self.actor_vectors = [name for name in actor if len(shapes[name]) == 1]
        self.critic_vectors = list(critic)
        actor_dim = sum(shapes[name][0] for name in self.actor_vectors)
        critic_dim = sum(shapes[name][0] for name in self.critic_vectors)

        self.encoder = ObservationEncoder({name: shapes[name] for name in actor}, EncoderSettings(**encoder))
        self.actor_norm = RunningNorm(actor_dim)
        self.critic_norm = RunningNorm(critic_dim)

        self.latent_dim = actor_dim + self.encoder.latent_dim
        self.actor = make_mlp(memory_dim or self.latent_dim, actor_hidden, num_actions, activation)
        self.critic = make_mlp(critic_dim, critic_hidden, 1, activation)
        self.log_std = nn.Parameter(torch.full((num_actions,), init_std).log())

        # A policy that reads vectors alone has no encoder to teach.
        use_predictor = aux_coef > 0.0 and self.encoder.latent_dim > 0
        self.predictor = StatePredictor(self.latent_dim, critic_dim, aux_coef) if use_predictor else None

    def clipping_groups(self) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
        """Return the parameters of the actor, encoders included, and the critic's."""
        actor = [parameter for name, parameter in self.named_parameters() if not name.startswith("critic.")]
        return actor, list(self.critic.parameters())

    def forward(self, obs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Return mean (B, A) and logarithm of the standard deviation (B, A) of the actions, and the value (B, 1)."""
        return *self.distribution(self.latent(obs)), self.value(obs)

    def latent(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Return the policy's view, (B, D): the normalized vectors and the encoded groups."""
        vectors = self.actor_norm(_concatenate(obs, self.actor_vectors))
        latent = torch.cat([vectors, *self.encoder(obs)], dim=-1)
        if self.predictor is not None and torch.is_grad_enabled():
            latent = self.predictor(latent, _concatenate(obs, self.critic_vectors))
        return latent

    def distribution(self, latent: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and logarithm of the standard deviation of the actions, (B, A) each, for a latent (B, D)."""
        mean = self.actor(latent)
        return mean, self.log_std.expand_as(mean)

    def policy(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Compute the mean of the actions, (B, A), normalized as the next rollout will be; nothing is changed."""
        return self.actor(self.next_latent(obs))

    def next_latent(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Return the policy's view, (B, D), normalized as the next rollout will be; nothing is changed."""
        vectors = self.actor_norm.with_all_samples(_concatenate(obs, self.actor_vectors))
        return torch.cat([vectors, *self.encoder(obs)], dim=-1)

    def value(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Compute the value, (B, 1), from the critic's groups."""
        return self.critic(self.critic_norm(_concatenate(obs, self.critic_vectors)))

    def count_samples(self, obs: Mapping[str, Tensor]) -> None:
        """Add the vectors of a batch to the normalizers' statistics."""
        state = _concatenate(obs, self.critic_vectors)
        self.actor_norm.add_samples(_concatenate(obs, self.actor_vectors))
        self.critic_norm.add_samples(state)
        if self.predictor is not None:
            self.predictor.norm.add_samples(state)

    def use_counted_samples(self) -> None:
        """Normalize the next rollout and its update with all samples that were counted so far."""
        self.actor_norm.apply_samples()
        self.critic_norm.apply_samples()
        if self.predictor is not None:
            self.predictor.norm.apply_samples()


def _concatenate(obs: Mapping[str, Tensor], names: Sequence[str]) -> Tensor:
    return torch.cat([obs[name] for name in names], dim=-1)
