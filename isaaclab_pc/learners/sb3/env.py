# SPDX-License-Identifier: BSD-3-Clause
"""Environments as Stable-Baselines3 sees them: NumPy arrays on the host."""

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from isaaclab_rl.sb3 import Sb3VecEnvWrapper
from torch import Tensor

from isaaclab_pc.learners.common.iteration_metrics import EnvClock, EpisodeStats, IterationLog
from isaaclab_pc.learners.common.shared import tensor_cores


class GroupEnv(Sb3VecEnvWrapper):
    """An Isaac Lab environment with one array for each observation group.

    Isaac Lab's own wrapper passes on the group ``policy`` alone, so the policy would see no cloud and the critic no
    state. And there, an episode that ran out of time goes on with the value of the next one's first observation.
    """

    def __init__(self, env: Any, groups: Sequence[str] | None) -> None:
        """Choose the groups that are read; None: the group ``policy`` as it is, for the library's policies."""
        super().__init__(env)
        self._groups = groups
        if groups is not None:
            own = env.unwrapped.single_observation_space
            self.observation_space = gymnasium.spaces.Dict({name: own[name] for name in groups})

        self.clock = EnvClock()
        self.env_log = IterationLog()
        self.episodes = EpisodeStats(self.num_envs, self.sim_device)
        self.truncated = np.zeros(self.num_envs, dtype=bool)
        """Whether the episode ran out of time with the last step, shape (N,)."""

    def step_wait(self) -> Any:
        """Step all environments; observations, rewards (N,), ends (N,), and nothing for each environment alone."""
        # Copies to the host included: on a GPU they wait for the step.
        with self.clock:
            with tensor_cores(allowed=False):
                obs, rewards, terminated, truncated, extras = self.env.step(self._async_actions)

            ended = terminated | truncated
            self.env_log.add_extras(extras)
            self.episodes.add(rewards, ended)
            self.truncated = _on_host(truncated)
            # A copy of the rewards, as what the rest of an episode is worth is added to them.
            return self._process_obs(obs), _on_host(rewards).copy(), _on_host(ended), [{}] * self.num_envs

    def close(self) -> None:
        """Leave the environment open: its owner closes it."""

    def _process_obs(self, obs_dict: Any) -> Any:
        if self._groups is None:
            return super()._process_obs(obs_dict)
        return {name: _on_host(obs_dict[name]) for name in self._groups}


def _on_host(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy()
