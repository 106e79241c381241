# SPDX-License-Identifier: BSD-3-Clause
"""A task without physics, deterministic after a reset: the action must point at a cloud's centre."""

from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import torch
from rsl_rl.env import VecEnv
from tensordict import TensorDict

NUM_POINTS = 12
ACTIONS = 3
EPISODE = 6


class FakeEnv(VecEnv):
    """Observations of the real environments, dynamics from a counter."""

    cfg: Any

    def __init__(
        self, num_envs: int = 4, obs: str = "points", num_points: int = NUM_POINTS, history_length: int = 1
    ) -> None:
        self.num_envs = num_envs
        self.history_length = history_length
        self.num_actions = ACTIONS
        self.max_episode_length = EPISODE
        self.device = "cpu"
        self.cfg = SimpleNamespace(is_finite_horizon=False)
        self.obs = obs
        self.num_points = num_points
        self.steps_taken = 0
        self.extras: dict[str, Any] = {}
        self.fails = torch.zeros(num_envs, dtype=torch.bool)
        """Environments that fail at the end of an episode; the others run out of time."""
        self.reset()
        self.single_observation_space = gymnasium.spaces.Dict(
            {
                name: gymnasium.spaces.Box(-np.inf, np.inf, tuple(value.shape[1:]), value.numpy().dtype.type)
                for name, value in self.observe().items()
            }
        )

    def reset(self) -> None:
        self.episode_length_buf = torch.zeros(self.num_envs, dtype=torch.long)
        self.reset_buf = torch.zeros(self.num_envs, dtype=torch.bool)
        self.count = torch.arange(self.num_envs) * 100

    def observe(self) -> dict[str, torch.Tensor]:
        if self.history_length == 1:
            return self._frame(self.count)

        first = self.count - self.episode_length_buf
        ages = range(self.history_length - 1, -1, -1)
        frames = [self._frame(torch.maximum(self.count - age, first)) for age in ages]
        stacked = {name: torch.stack([frame[name] for frame in frames], dim=1) for name in frames[0]}
        return {**stacked, "policy": stacked["policy"].flatten(1), "critic": frames[-1]["critic"]}

    def _frame(self, count: torch.Tensor) -> dict[str, torch.Tensor]:
        phase = count[:, None] * torch.tensor([0.7, 1.3, 2.9])
        centre = 0.2 * torch.sin(phase)
        offsets = 0.02 * torch.sin(torch.arange(self.num_points * 3, dtype=torch.float32)).view(-1, 3)
        policy = torch.cos(phase)[:, :2]
        critic = torch.cat([policy, centre], dim=1)
        if self.obs == "state":
            return {"policy": critic, "critic": critic.clone()}
        if self.obs == "depth":
            depth = 1.0 + centre[:, :1, None, None] * torch.linspace(0, 1, 16).expand(self.num_envs, 1, 16, 16)
            return {"policy": policy, "depth": depth, "critic": critic}
        points = (centre[:, None] + offsets).half()
        return {"policy": policy, "points": points, "critic": critic}

    def get_observations(self) -> TensorDict:
        return TensorDict(self.observe(), batch_size=[self.num_envs])

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict[str, Any]]:
        self.steps_taken += 1
        target = 0.2 * torch.sin(self.count[:, None] * torch.tensor([0.7, 1.3, 2.9]))
        reward = -(actions - 5.0 * target).square().sum(dim=1)
        self.episode_length_buf += 1
        self.count += 1
        dones = self.episode_length_buf >= EPISODE
        self.episode_length_buf[dones] = 0
        self.reset_buf = dones
        rate = torch.tensor(float("nan")) if not dones.any() else torch.tensor(0.5)
        extras: dict[str, Any] = {"log": {"Metrics/success_rate": rate, "Guard/state": 2.0}}
        if not self.cfg.is_finite_horizon:
            extras["time_outs"] = dones & ~self.fails
        return self.get_observations(), reward, dones.long(), extras


class FakeGymEnv:
    """The fake environment behind the interface of Isaac Lab's own, which a library's wrapper goes around."""

    def __init__(self, env: FakeEnv) -> None:
        self.fake = env
        self.unwrapped = self
        self.render_mode = None
        self.single_observation_space = env.single_observation_space
        self.single_action_space = gymnasium.spaces.Box(-np.inf, np.inf, (ACTIONS,))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.fake, name)

    @property
    def obs_buf(self) -> dict[str, torch.Tensor]:
        return self.fake.observe()

    @property
    def episode_length_buf(self) -> torch.Tensor:
        return self.fake.episode_length_buf

    @episode_length_buf.setter
    def episode_length_buf(self, lengths: torch.Tensor) -> None:
        self.fake.episode_length_buf = lengths

    def reset(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        self.fake.reset()
        return self.fake.observe(), {}

    def step(self, actions: torch.Tensor) -> tuple[dict[str, torch.Tensor], torch.Tensor, torch.Tensor, Any, Any]:
        _, reward, dones, extras = self.fake.step(actions)
        ended = dones.bool()
        return self.fake.observe(), reward, ended & self.fake.fails, ended & ~self.fake.fails, extras
