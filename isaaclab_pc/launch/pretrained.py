# SPDX-License-Identifier: BSD-3-Clause
"""Policies that come with the package: ``resume=pretrained`` of ``scripts/play.py``. Loads no torch."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.launch.run_folder import SETTINGS_NAME
from isaaclab_pc.launch.task_names import our_tasks, short_name
from isaaclab_pc.settings import RunSettings

__all__ = ["POLICY_NAME", "PRETRAINED", "find_pretrained", "pretrained_folder", "pretrained_tasks"]

PRETRAINED = "pretrained"
"""The value of ``resume`` that names the task's own policy, and the folder in the task's package where it lies."""

POLICY_NAME = "policy.pt"
"""A checkpoint without what only training needs. The settings of its run lie beside it."""


def pretrained_folder(task: str) -> Path:
    """Return where a task's policy lies or would lie.

    Args:
        task: The short name of one of our tasks.
    """
    spec = importlib.util.find_spec(f"isaaclab_pc.tasks.{task}")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / PRETRAINED


def pretrained_tasks() -> list[str]:
    """Return the short names of the tasks that come with a policy."""
    return [task for task in our_tasks() if (pretrained_folder(task) / POLICY_NAME).is_file()]


def find_pretrained(settings: RunSettings) -> tuple[Path, Path]:
    """Return a task's policy.

    Args:
        settings: What was asked for; ``task`` is a gym id.

    Returns:
        The folder with the settings of the run that trained it, and the checkpoint.

    Raises:
        ConfigError: The task comes with none.
    """
    task = short_name(settings.task)
    tasks = pretrained_tasks()
    if task not in tasks:
        raise ConfigError(f"resume={PRETRAINED}: {task} comes with no policy; these do: {', '.join(tasks)}.")

    folder = pretrained_folder(task)
    assert (folder / SETTINGS_NAME).is_file()
    return folder, folder / POLICY_NAME
