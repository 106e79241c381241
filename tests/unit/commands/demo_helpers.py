# SPDX-License-Identifier: BSD-3-Clause
"""Demonstrations without a simulator."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from isaaclab.utils.datasets import EpisodeData

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.demos.demo_file import DemoFile
from isaaclab_pc.settings import RunSettings

STEPS, POINTS = 5, 8


def settings(*changes: str) -> RunSettings:
    return compose(["task=lift", "physics=newton_mjwarp", "device=cpu", *changes])


def episode(seed: int, env: int, steps: int = STEPS, success: bool = True) -> EpisodeData:
    """An episode in which every number tells the seed, the environment and the step."""
    made = EpisodeData()
    made.seed, made.success = seed, success
    made.add("initial_state/rigid_object/cube/root_pose", torch.full((7,), float(seed)))
    for step in range(steps):
        value = 100.0 * seed + 10.0 * env + step
        made.add("actions", torch.full((4,), value))
        made.add("obs/points", torch.full((POINTS, 3), value).half())
        made.add("obs/policy", torch.full((6,), value))
        made.add("rewards", torch.tensor(value))
        made.add("dones", torch.tensor(step == steps - 1).byte())
        made.add("states/rigid_object/cube/root_pose", torch.full((7,), value))
    made.pre_export()
    return made


def add_wave(file: DemoFile, seed: int, envs: int = 2, run: RunSettings | None = None) -> None:
    """Add a wave of so many successful episodes out of three."""
    file.parts.mkdir(parents=True, exist_ok=True)
    file.add_wave(run or settings(), seed, 3, envs, {env: episode(seed, env) for env in range(envs)})


def recorded(path: Path, *seeds: int) -> DemoFile:
    """A file with a wave of each seed."""
    file = DemoFile(path)
    with file.locked():
        for seed in seeds:
            add_wave(file, seed)
        file.merge()
    return file


class FakeEnv:
    """An environment as a recorder sees it: its state is the number of the step, its episodes fail by the seed.

    Environment i ends after :data:`STEPS` + i steps and is reset at once; it succeeds where seed + i is no multiple
    of 3.
    """

    def __init__(self, num_envs: int = 3) -> None:
        self.num_envs = num_envs
        self.scene = self
        self.cfg = SimpleNamespace(action_space=2)
        self.device = "cpu"
        self.point_cloud = None
        self.camera = None
        self.env_origins = torch.zeros(num_envs, 3)
        self.guard = SimpleNamespace(causes=torch.zeros(num_envs), benched=torch.zeros(num_envs, dtype=torch.bool))
        self.episode_success = torch.zeros(num_envs, dtype=torch.bool)
        self.seeds: list[int] = []
        self._lengths = STEPS + torch.arange(num_envs)
        self.max_episode_length = STEPS + num_envs
        self._step = torch.zeros(num_envs)

    def expert(self) -> Callable[[], torch.Tensor]:
        return lambda: torch.stack([0.1 * self._step, 9.0 - self._step], dim=1)

    def reset(self, seed: int) -> tuple[dict[str, torch.Tensor], dict]:
        self.seeds.append(seed)
        self._step[:] = 0.0
        return self._observe(), {}

    def step(self, actions: torch.Tensor) -> tuple:
        self._pre_physics_step(actions)
        self._step += 1.0
        done = self._get_dones()
        succeeds = (self.seeds[-1] + torch.arange(self.num_envs)) % 3 != 0
        self.episode_success = torch.where(done, succeeds, self.episode_success)
        reward = self._step.clone()
        self._step[done] = 0.0
        return self._observe(), reward, torch.zeros_like(done), done, {}

    def get_state(self, is_relative: bool) -> dict[str, Any]:
        assert is_relative
        return {"rigid_object": {"cube": {"root_pose": self._step[:, None].repeat(1, 7)}}, "gripper": {}}

    def close(self) -> None:
        pass

    def _pre_physics_step(self, actions: torch.Tensor) -> None:
        pass

    def _get_dones(self) -> torch.Tensor:
        return self._step >= self._lengths

    def _observe(self) -> dict[str, torch.Tensor]:
        step = self._step
        return {"policy": step[:, None].repeat(1, 6), "points": step[:, None, None].repeat(1, POINTS, 3)}
