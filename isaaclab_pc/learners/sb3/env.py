# SPDX-License-Identifier: BSD-3-Clause
"""Environments as Stable-Baselines3 sees them: NumPy arrays on the host."""

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
import torch
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor

from isaaclab_pc.learners.common.iteration_metrics import EnvClock, EpisodeStats, IterationLog
from isaaclab_pc.learners.common.shared import tensor_cores


class GroupEnv(VecEnv):
    """An Isaac Lab environment with one array for each observation group.

    ``isaaclab_rl.sb3.Sb3VecEnvWrapper`` passes on the group ``policy`` alone, so the policy would see no cloud and the
    critic no state. And there, an episode that ran out of time goes on with the value of the next one's first
    observation.
    """

    def __init__(self, env: Any, groups: Sequence[str] | None) -> None:
        """Choose the groups that are read; None: the group ``policy`` as it is, for the library's policies."""
        self.isaac_env = env
        base = env.unwrapped
        self._device = base.device
        self._groups = groups

        own = base.single_observation_space
        space = own["policy"] if groups is None else gymnasium.spaces.Dict({name: own[name] for name in groups})
        super().__init__(base.num_envs, space, _bounded(base.single_action_space))

        self.clock = EnvClock()
        self.env_log = IterationLog()
        self.episodes = EpisodeStats(self.num_envs, self._device)
        self.truncated = np.zeros(self.num_envs, dtype=bool)
        """Whether the episode ran out of time with the last step, shape (N,)."""

    def reset(self) -> Any:
        """Reset all environments."""
        obs, _ = self.isaac_env.reset()
        return self._split(obs)

    def step_async(self, actions: np.ndarray) -> None:
        """Take the actions of the next step, shape (N, A)."""
        self._actions = torch.from_numpy(actions).to(self._device)

    def step_wait(self) -> Any:
        """Step all environments; observations, rewards (N,), ends (N,), and nothing for each environment alone."""
        # Copies to the host included: on a GPU they wait for the step.
        with self.clock:
            with tensor_cores(allowed=False):
                obs, rewards, terminated, truncated, extras = self.isaac_env.step(self._actions)

            ended = terminated | truncated
            self.env_log.add_extras(extras)
            self.episodes.add(rewards, ended)
            self.truncated = _on_host(truncated)
            # A copy of the rewards, as what the rest of an episode is worth is added to them.
            return self._split(obs), _on_host(rewards).copy(), _on_host(ended), [{}] * self.num_envs

    def close(self) -> None:
        """Leave the environment open: its owner closes it."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute of the environment, once for each index."""
        return [getattr(self.isaac_env.unwrapped, attr_name)] * len(list(self._get_indices(indices)))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Refuse: all environments are one object."""
        raise NotImplementedError(f"{attr_name} cannot be set for single environments")

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
        """Refuse: all environments are one object."""
        raise NotImplementedError(f"{method_name} cannot be called for single environments")

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Return False for each index: no environment has a wrapper of Stable-Baselines3."""
        return [False] * len(list(self._get_indices(indices)))

    def _split(self, obs: Mapping[str, Any]) -> Any:
        """Return the groups that are read, as arrays of the environment's own types."""
        if self._groups is None:
            return _on_host(obs["policy"])
        return {name: _on_host(obs[name]) for name in self._groups}


def _on_host(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy()


def _bounded(space: gymnasium.Space) -> gymnasium.Space:
    """Return a space of actions with the bounds that Stable-Baselines3 insists on: [-1, 1], as Isaac Lab's wrapper."""
    if isinstance(space, gymnasium.spaces.Box) and not space.is_bounded("both"):
        return gymnasium.spaces.Box(-1.0, 1.0, space.shape, space.dtype.type)
    return space
