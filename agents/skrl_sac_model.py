# SPDX-License-Identifier: BSD-3-Clause
"""The networks of SAC for skrl: an actor over observations, and critics over states and actions."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import torch
from skrl.models.torch import Model
from torch import Tensor, nn
from torch.distributions import Normal
from torch.nn import functional

from isaaclab_pc.agents.networks import ObservationEncoder, RunningNorm, make_mlp

__all__ = ["SoftActor", "SoftCritic", "make_models"]

_LOG_STD = (-5.0, 2.0)
"""Range of the logarithm of the standard deviation, before the actions are squashed."""


def make_models(
    *,
    observation_space: gymnasium.spaces.Dict,
    state_space: gymnasium.spaces.Dict,
    action_space: gymnasium.Space,
    device: str | torch.device,
    actor: Sequence[str],
    critic: Sequence[str],
    encoder: Mapping[str, Any],
    actor_hidden: Sequence[int],
    critic_hidden: Sequence[int],
    activation: str,
) -> dict[str, Model]:
    """Build the networks of SAC.

    Args:
        observation_space: The actor's groups.
        state_space: The critics' groups, vectors only.
        action_space: Actions, shape (A,).
        device: Where the networks live.
        actor: Names of the actor's groups, as the environment was told.
        critic: Likewise, of the critics.
        encoder: Fields of :class:`~isaaclab_pc.agents.ppo.EncoderSettings`.
        actor_hidden: Hidden layers of the actor, after the encoders.
        critic_hidden: Hidden layers of each critic.
        activation: Activation of the hidden layers.

    Returns:
        The models by skrl's names of their roles.
    """
    spaces = {"observation_space": observation_space, "state_space": state_space, "action_space": action_space}
    # One for all critics: skrl lets targets follow parameters only, and the statistics are buffers.
    norm = RunningNorm(sum(space.shape[0] for space in state_space.values() if space.shape))
    models: dict[str, Model] = {"policy": SoftActor(encoder, actor_hidden, activation, device=device, **spaces)}
    for role in ("critic_1", "critic_2", "target_critic_1", "target_critic_2"):
        models[role] = SoftCritic(norm, critic_hidden, activation, device=device, **spaces)
    return {role: model.to(device) for role, model in models.items()}


class SoftActor(Model):
    """A Gaussian whose samples are squashed by a hyperbolic tangent: actions in (-1, 1)."""

    def __init__(
        self, encoder: Mapping[str, Any], hidden: Sequence[int], activation: str, **spaces_and_device: Any
    ) -> None:
        """Create the network.

        Args:
            encoder: Fields of :class:`~isaaclab_pc.agents.ppo.EncoderSettings`.
            hidden: Hidden layers, after the encoders.
            activation: Activation of the hidden layers.
            **spaces_and_device: skrl's arguments; the observations are a dictionary of groups.
        """
        super().__init__(**spaces_and_device)
        shapes = {name: space.shape for name, space in self.observation_space.items()}  # type: ignore[union-attr]
        self.actor_groups = list(shapes)
        self.vectors = [name for name, shape in shapes.items() if len(shape) == 1]
        size = sum(shapes[name][0] for name in self.vectors)

        self.encoder = ObservationEncoder(shapes, **encoder)
        self.norm = RunningNorm(size)
        self.layers = make_mlp(size + self.encoder.latent_dim, hidden, 2 * self.num_actions, activation)

    def forward(self, obs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """Compute mean and logarithm of the standard deviation of the Gaussian, each (B, A).

        Args:
            obs: Observation groups by name, batch (B,).
        """
        vectors = torch.cat([obs[name] for name in self.vectors], dim=-1)
        mean, log_std = self.layers(torch.cat([self.norm(vectors), *self.encoder(obs)], dim=-1)).chunk(2, dim=-1)
        low, high = _LOG_STD
        return mean, low + 0.5 * (high - low) * (log_std.tanh() + 1.0)

    def compute(self, inputs: Mapping[str, Any], *, role: str = "") -> tuple[Tensor, dict[str, Tensor]]:
        """Return the mean (B, A), not squashed, and the logarithm of the standard deviation."""
        mean, log_std = self(inputs["observations"])
        return mean, {"log_std": log_std}

    def act(self, inputs: Mapping[str, Any], *, role: str = "") -> tuple[Tensor, dict[str, Tensor]]:
        """Sample actions (B, A), with ``log_prob`` (B, 1); see skrl's ``Model.act``."""
        mean, outputs = self.compute(inputs, role=role)
        normal = Normal(mean, outputs["log_std"].exp())
        sample = normal.rsample()
        # log(1 - tanh(x)^2), in a form that stays finite for large x.
        slope = 2.0 * (math.log(2.0) - sample - functional.softplus(-2.0 * sample))
        log_prob = (normal.log_prob(sample) - slope).sum(dim=-1, keepdim=True)
        return sample.tanh(), {**outputs, "log_prob": log_prob, "mean_actions": mean.tanh()}

    def policy(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Compute the actions of the deterministic policy, (B, A), from the actor's groups."""
        return self(obs)[0].tanh()


class SoftCritic(Model):
    """The value of an action, in the critic's groups."""

    def __init__(self, norm: RunningNorm, hidden: Sequence[int], activation: str, **spaces_and_device: Any) -> None:
        """Create the network.

        Args:
            norm: Whitens the state.
            hidden: Hidden layers.
            activation: Activation of the hidden layers.
            **spaces_and_device: skrl's arguments; the states are a dictionary of vectors.
        """
        super().__init__(**spaces_and_device)
        self.norm = norm
        self.layers: nn.Module = make_mlp(norm.mean.numel() + self.num_actions, hidden, 1, activation)

    def forward(self, states: Mapping[str, Tensor], actions: Tensor) -> Tensor:  # type: ignore[override]
        """Compute values, (B, 1).

        Args:
            states: The critic's groups by name, batch (B,).
            actions: Shape (B, A).
        """
        state = self.norm(torch.cat(list(states.values()), dim=-1))
        return self.layers(torch.cat([state, actions], dim=-1))

    def compute(self, inputs: Mapping[str, Any], *, role: str = "") -> tuple[Tensor, dict[str, Tensor]]:
        """Return the values (B, 1) of ``taken_actions`` in ``states``."""
        return self(inputs["states"], inputs["taken_actions"]), {}

    def act(self, inputs: Mapping[str, Any], *, role: str = "") -> tuple[Tensor, dict[str, Tensor]]:
        """Return what :meth:`compute` does: nothing is drawn."""
        return self.compute(inputs, role=role)
