# SPDX-License-Identifier: BSD-3-Clause
"""Policies that come with the package: ``resume=pretrained`` of ``scripts/play.py``, and ``init=pretrained``.

Loads no torch.
"""

import importlib.util
from pathlib import Path

from isaaclab_pc.cli.task_names import our_tasks, short_name
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners import read_header
from isaaclab_pc.settings import RunSettings

PRETRAINED = "pretrained"
"""The value of ``resume`` and ``init`` that names the task's own policy."""


def policy_file(task: str) -> Path:
    """Return where a task's policy lies or would lie: a checkpoint, its settings in the header."""
    spec = importlib.util.find_spec(f"isaaclab_pc.tasks.{task}")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).with_name("policy.pt")


def pretrained_tasks() -> list[str]:
    """Return the short names of the tasks that come with a policy."""
    return [task for task in our_tasks() if policy_file(task).is_file()]


def find_pretrained(settings: RunSettings, key: str = "resume") -> tuple[RunSettings, Path]:
    """Return the settings that trained a task's policy, and its checkpoint; ``key`` is the setting that asks for it.

    Raises:
        ConfigError: The task comes with none.
    """
    task = short_name(settings.task)
    tasks = pretrained_tasks()
    if task not in tasks:
        raise ConfigError(f"{key}={PRETRAINED}: {task} comes with no policy; these do: {', '.join(tasks)}.")

    path = policy_file(task)
    return RunSettings().with_values(read_header(path)["settings"]), path
