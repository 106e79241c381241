# SPDX-License-Identifier: BSD-3-Clause
"""Environments as skrl sees them, in place of the wrapper that ``isaaclab_rl.skrl`` takes from skrl.

That one reads the groups ``policy`` and ``critic`` alone, makes one float32 vector of each, seeds the environment anew,
and resets it only once.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
from skrl.envs.wrappers.torch.isaaclab_envs import IsaacLabWrapper
from skrl.utils.spaces.torch import flatten_tensorized_space, tensorize_space
from torch import Tensor


def as_vectors(space: gymnasium.Space | None, values: Any) -> Tensor | None:
    """Return N values of a space, in tensors, as one vector each, (N, D); None where there is neither."""
    return flatten_tensorized_space(tensorize_space(space, values))


class FlatEnv(IsaacLabWrapper):
    """Observations and states as one vector each, for the models of skrl's own configurations."""

    def reset(self) -> tuple[Any, dict[str, Any]]:
        """Reset all environments."""
        obs, self._info = self._env.reset()
        self._observations, self._states = self.split(obs)
        return self._observations, self._info

    def step(self, actions: Tensor) -> tuple[Any, Tensor, Tensor, Tensor, Any]:
        """Step all environments; rewards and ends have shape (N, 1)."""
        # A copy: the environment may change what it is given, and skrl keeps it.
        obs, reward, terminated, truncated, self._info = self._env.step(actions.clone())
        self._observations, self._states = self.split(obs)
        return self._observations, reward.view(-1, 1), terminated.view(-1, 1), truncated.view(-1, 1), self._info

    def split(self, obs: Mapping[str, Any]) -> tuple[Any, Any]:
        """Return the policy's and the critic's part of observation groups by name."""
        return as_vectors(self.observation_space, obs["policy"]), as_vectors(self.state_space, obs.get("critic"))


class GroupEnv(FlatEnv):
    """Observations and states as dictionaries of groups, as the environment makes them."""

    def __init__(self, env: Any, actor: Sequence[str], critic: Sequence[str]) -> None:
        """Choose the groups of actor and critic."""
        super().__init__(env)
        self._actor = list(actor)
        self._critic = list(critic)

    @property
    def observation_space(self) -> gymnasium.spaces.Dict:
        """The actor's groups."""
        return self._select(self._actor)

    @property
    def state_space(self) -> gymnasium.spaces.Dict:
        """The critic's groups."""
        return self._select(self._critic)

    def split(self, obs: Mapping[str, Any]) -> tuple[Any, Any]:
        """Return both as dictionaries of groups."""
        return {name: obs[name] for name in self._actor}, {name: obs[name] for name in self._critic}

    def _select(self, groups: Sequence[str]) -> gymnasium.spaces.Dict:
        spaces = self._unwrapped.single_observation_space
        return gymnasium.spaces.Dict({name: spaces[name] for name in groups})
