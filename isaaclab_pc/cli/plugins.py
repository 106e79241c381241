# SPDX-License-Identifier: BSD-3-Clause
"""Imports what other people have installed, where one broken package must not keep the others from being used."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from importlib import metadata

from isaaclab_pc.terminal.screen import current

__all__ = ["ISAACLAB_TASKS", "load_hydra_plugins", "load_task_packages"]

ISAACLAB_TASKS = "isaaclab_tasks"
"""The package of Isaac Lab's own tasks."""


def load_task_packages(begin: Callable[[str], object] | None = None) -> dict[str, str]:
    """Import Isaac Lab's tasks and those of other packages, found by their entry points ``isaaclab.tasks``.

    Args:
        begin: Called with the name of each package of others before it is imported.

    Returns:
        The errors of those that cannot be imported, on one line, by name.
    """
    import isaaclab_tasks  # noqa: F401 (registers Isaac Lab's)

    # The command line, which child_process loads, asks for plugins.
    from isaaclab_pc.processes.child_process import is_stop

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
            broken[name] = _on_one_line(error)
    return broken


def load_hydra_plugins() -> None:
    """Let Hydra find its plugins; one that cannot be imported is warned of and left out.

    Hydra itself passes over an ImportError alone.
    """
    from hydra.core.plugins import Plugins

    from isaaclab_pc.processes.child_process import is_stop

    while True:
        try:
            Plugins.instance()
            return
        except (Exception, SystemExit) as error:
            name = _scanned_by_hydra(error)
            if is_stop(error) or name is None or name in sys.modules:
                raise
            why = _on_one_line(error)
            current().warn(f"warning: the Hydra plugin {name} cannot be imported, and is left out: {why}")
            # What is None, Hydra passes over.
            sys.modules[name] = None  # pyright: ignore[reportArgumentType]


def _scanned_by_hydra(error: BaseException) -> str | None:
    """Return the module that Hydra was importing."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_name == "_scan_all_plugins":
            return frame.f_locals.get("modname")
    return None


def _on_one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
