# SPDX-License-Identifier: BSD-3-Clause
"""The network for Stable-Baselines3: actor and critic as one of its policies, over a dictionary of groups."""

from collections.abc import Callable, Mapping
from typing import Any, cast

from stable_baselines3.common.distributions import Distribution
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor, nn

from isaaclab_pc.agents.actor_critic import ActorCritic


class PointCloudPolicy(ActorCriticPolicy):
    """Actor and critic that read groups of their own.

    ``net_arch`` holds the settings of :class:`~isaaclab_pc.agents.actor_critic.ActorCritic`. Observations come as they
    are stored, clouds as float16: Stable-Baselines3's own features, which would make them float32, are left out.
    """

    def _build(self, lr_schedule: Callable[[float], float]) -> None:
        shapes = {name: space.shape for name, space in cast(Any, self.observation_space).items()}
        network: Mapping[str, Any] = cast(Any, self.net_arch)
        self.network = ActorCritic(shapes, cast(Any, self.action_space).shape[0], **network)
        optimizer = cast(Callable[..., Any], self.optimizer_class)
        self.optimizer = optimizer(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)

    @property
    def log_std(self) -> nn.Parameter:  # type: ignore[override]
        """Logarithm of the actions' standard deviation, shape (A,)."""
        return self.network.log_std

    def forward(  # type: ignore[override]
        self, obs: Mapping[str, Tensor], deterministic: bool = False
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Act with all samples that were counted so far: actions (B, A), values (B, 1), and log-probabilities (B,)."""
        self.network.use_counted_samples()
        distribution, values = self._distribution_and_values(obs)
        actions = distribution.get_actions(deterministic=deterministic)
        return actions, values, distribution.log_prob(actions)

    def evaluate_actions(  # type: ignore[override]
        self, obs: Mapping[str, Tensor], actions: Tensor
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Compute values (B, 1), log-probabilities (B,) and entropies (B,) of actions, and count the samples."""
        # Every epoch adds each sample once, so all weigh alike.
        self.network.count_samples(obs)
        distribution, values = self._distribution_and_values(obs)
        return values, distribution.log_prob(actions), distribution.entropy()

    def get_distribution(self, obs: Mapping[str, Tensor]) -> Distribution:  # type: ignore[override]
        """Return the distribution of the actions, from the actor's groups alone; nothing is changed."""
        return cast(Any, self.action_dist).proba_distribution(self.network.policy(obs), self.log_std)

    def predict_values(self, obs: Mapping[str, Tensor]) -> Tensor:  # type: ignore[override]
        """Compute values, (B, 1), from the critic's groups."""
        return self.network.value(obs)

    def _distribution_and_values(self, obs: Mapping[str, Tensor]) -> tuple[Distribution, Tensor]:
        mean, log_std, values = self.network(obs)
        return cast(Any, self.action_dist).proba_distribution(mean, log_std), values
