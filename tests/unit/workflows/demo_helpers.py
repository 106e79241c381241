# SPDX-License-Identifier: BSD-3-Clause
"""Demonstrations without a simulator."""

from pathlib import Path
from typing import Any

import torch
from isaaclab.utils.datasets import EpisodeData

from isaaclab_pc.workflows.config import compose
from isaaclab_pc.workflows.demo_file import DemoFile

STEPS, POINTS = 5, 8


def settings(*changes: str) -> dict[str, Any]:
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


def add_wave(file: DemoFile, seed: int, envs: int = 2, config: dict[str, Any] | None = None) -> None:
    """Add a wave of so many successful episodes out of three."""
    file.parts.mkdir(parents=True, exist_ok=True)
    file.add_wave(config or settings(), seed, 3, envs, {env: episode(seed, env) for env in range(envs)})


def recorded(path: Path, *seeds: int) -> DemoFile:
    """A file with a wave of each seed."""
    file = DemoFile(path)
    with file.locked():
        for seed in seeds:
            add_wave(file, seed)
        file.merge()
    return file
