# SPDX-License-Identifier: BSD-3-Clause
"""What ``scripts/new_task.py`` writes is a task that runs, and docs/tutorial.md gives it an expert that solves it."""

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import gymnasium as gym
import pytest
import torch

import isaaclab_pc.tasks
from isaaclab_pc.cli.task_names import our_tasks
from isaaclab_pc.commands.new_task import new_task

pytestmark = [pytest.mark.sim, pytest.mark.slow_on_newton]

TASK_ID = "IsaacPC-Hover-Franka-Direct"
TUTORIAL = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"


def add_expert(folder: Path) -> None:
    """Change a task as the tutorial says."""
    expert, change = re.findall(r"```python\n(.*?)```", TUTORIAL.read_text(encoding="utf-8"), re.DOTALL)
    imports, method = change.split("\n\n\nclass HoverEnv(PointCloudEnv):\n    ...\n")
    (folder / "expert.py").write_text(expert)

    env = folder / "hover_env.py"
    text = env.read_text()
    for place, addition in (("\n\n\nclass HoverEnv", f"\n{imports}"), ("\n    def _bind_scene", method)):
        assert place in text
        text = text.replace(place, f"{addition}{place}", 1)
    env.write_text(text)


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Write a task into a folder that counts as part of ``isaaclab_pc.tasks``, and register it."""
    folder = tmp_path_factory.mktemp("tasks")
    (folder / "__init__.py").write_text(Path(isaaclab_pc.tasks.__file__).read_text())
    new_task("hover", folder)
    add_expert(folder / "hover")
    name = "isaaclab_pc.tasks.hover"
    isaaclab_pc.tasks.__path__.append(str(folder))
    importlib.invalidate_caches()
    importlib.import_module(name)
    yield TASK_ID
    isaaclab_pc.tasks.__path__.remove(str(folder))
    gym.registry.pop(TASK_ID)
    for module in [module for module in sys.modules if module.startswith(name)]:
        del sys.modules[module]


def test_a_new_task_resets_and_steps_and_its_expert_solves_it(task: str, make_env: Callable) -> None:
    assert task in our_tasks().values()
    env = make_env(task, 3)
    observation, _ = env.reset(seed=1)
    assert set(observation) == {"policy", "points", "critic"}
    expert = env.expert()
    for _ in range(30):
        observation, reward, *_ = env.step(expert())
        assert all(torch.isfinite(value).all() for value in (reward, *observation.values()))
    assert env._success().all()
