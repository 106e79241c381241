# SPDX-License-Identifier: BSD-3-Clause
"""Imports what other people have installed, where one broken package must not keep the others from being used."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata

__all__ = ["ISAACLAB_TASKS", "load_task_packages"]

ISAACLAB_TASKS = "isaaclab_tasks"
"""The package of Isaac Lab's own tasks."""


def load_task_packages(begin: Callable[[str], object] | None = None) -> dict[str, str]:
    """Import Isaac Lab's tasks and the packages whose entry points ``isaaclab.tasks`` register others.

    Args:
        begin: Called with the name of each package of others before it is imported.

    Returns:
        The errors of those that cannot be imported, on one line, by name.
    """
    import isaaclab_tasks  # noqa: F401 (registers Isaac Lab's)

    # The command line, which child_process loads, asks for the names of tasks.
    from isaaclab_pc.launch.child_process import is_stop

    broken = {}
    for entry_point in metadata.entry_points(group="isaaclab.tasks"):
        owner = "" if entry_point.dist is None else f" of {entry_point.dist.name}"
        name = f"{entry_point.value}{owner}"
        if begin is not None:
            begin(name)
        try:
            entry_point.load()
        except BaseException as error:
            if is_stop(error):
                raise
            broken[name] = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return broken
