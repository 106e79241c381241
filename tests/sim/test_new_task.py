# SPDX-License-Identifier: BSD-3-Clause
"""What ``scripts/new_task.py`` writes is a task that runs."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import gymnasium as gym
import pytest
import torch

import isaaclab_pc.tasks
from isaaclab_pc.commands.new_task import new_task
from isaaclab_pc.launch.task_names import our_tasks

pytestmark = pytest.mark.sim

TASK_ID = "IsaacPC-Hover-Over-Franka-Direct"


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Write a task into a folder that counts as part of ``isaaclab_pc.tasks``, and register it."""
    folder = tmp_path_factory.mktemp("tasks")
    (folder / "__init__.py").write_text(Path(isaaclab_pc.tasks.__file__).read_text())
    new_task("hover_over", folder)
    name = "isaaclab_pc.tasks.hover_over"
    isaaclab_pc.tasks.__path__.append(str(folder))
    importlib.invalidate_caches()
    importlib.import_module(name)
    yield TASK_ID
    isaaclab_pc.tasks.__path__.remove(str(folder))
    gym.registry.pop(TASK_ID)
    for module in [module for module in sys.modules if module.startswith(name)]:
        del sys.modules[module]


def test_a_new_task_resets_steps_and_can_be_solved(task: str, make_env: Callable) -> None:
    assert task in our_tasks().values()
    env = make_env(task, 3)
    observation, _ = env.reset(seed=1)
    assert set(observation) == {"policy", "points", "critic"}
    for _ in range(30):
        way = env.cube_pos + torch.tensor([0.0, 0.0, env.cfg.height]) - env.tool_pos
        observation, reward, *_ = env.step(way / env.cfg.tool_delta)
        assert all(torch.isfinite(value).all() for value in (reward, *observation.values()))
    assert env._success().all()
