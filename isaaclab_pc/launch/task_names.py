# SPDX-License-Identifier: BSD-3-Clause
"""Names of tasks: short names for ours, gym ids for all."""

from __future__ import annotations

import difflib
import functools
import importlib.util
import json
import pkgutil
import subprocess
import sys
from collections.abc import Sequence
from typing import TypedDict

from isaaclab_pc.errors import ConfigError, closest

__all__ = [
    "all_ids",
    "expert_tasks",
    "has_expert",
    "has_sizes",
    "our_tasks",
    "registered_tasks",
    "require_expert",
    "resolve_task",
    "short_name",
    "short_names",
]

PREFIX = "IsaacPC-"
"""Begins the gym ids of this package's tasks."""

_LIST_ALL = """
import isaaclab_tasks
from isaaclab.cli import load_external_tasks
from isaaclab_pc.launch.task_names import describe_registered
load_external_tasks()
print("\\ntasks:", describe_registered())
"""


class Traits(TypedDict):
    """What a task offers beside its environment."""

    has_expert: bool
    """Whether the package of its environment has a module ``expert``."""
    has_sizes: bool
    """Whether its agents come in every size, as those of ``register_task`` do."""


def our_tasks() -> dict[str, str]:
    """Return the gym ids of this package's tasks by short name, the name of their folder. Loads no simulator."""
    import gymnasium

    import isaaclab_pc.tasks  # noqa: F401 (registers them)

    ids = sorted(task_id for task_id in gymnasium.registry if task_id.startswith(PREFIX))
    return {_package(task_id).rpartition(".")[2]: task_id for task_id in ids}


def expert_tasks() -> dict[str, str]:
    """Return the gym ids of our tasks that have an expert, by short name. Loads no simulator."""
    return {short: task_id for short, task_id in our_tasks().items() if _has_expert_module(task_id)}


def has_expert(task_id: str) -> bool:
    """Tell whether a task has an expert: a module ``expert`` beside that of its environment.

    Args:
        task_id: A gym id, of this package or another.

    Raises:
        ConfigError: It is of another package, and Isaac Lab's tasks cannot be imported.
    """
    if task_id in our_tasks().values():
        return task_id in expert_tasks().values()
    return _traits(task_id)["has_expert"]


def has_sizes(task_id: str) -> bool:
    """Tell whether a task has agents in every size.

    Args:
        task_id: A gym id, of this package or another.

    Raises:
        ConfigError: It is of another package, and Isaac Lab's tasks cannot be imported.
    """
    return task_id in our_tasks().values() or _traits(task_id)["has_sizes"]


def _traits(task_id: str) -> Traits:
    return registered_tasks().get(task_id, {"has_expert": False, "has_sizes": False})


def require_expert(task_id: str, asked: str) -> None:
    """Refuse a task without an expert.

    Args:
        task_id: A gym id.
        asked: What asks for the expert, for the message.

    Raises:
        ConfigError: The task has none; the message names those that have one.
    """
    if not has_expert(task_id):
        raise ConfigError(f"{asked}: {task_id} has no expert; these have one: {', '.join(sorted(expert_tasks()))}.")


def _has_expert_module(task_id: str) -> bool:
    package = _package(task_id)
    try:
        return bool(package) and importlib.util.find_spec(f"{package}.expert") is not None
    except ImportError:
        # Somebody's task whose package lacks what it imports.
        return False


def _package(task_id: str) -> str:
    """Return the package of a task's environment."""
    import gymnasium

    entry_point = gymnasium.spec(task_id).entry_point
    return entry_point.partition(":")[0].rpartition(".")[0] if isinstance(entry_point, str) else ""


def describe_registered() -> str:
    """Return :class:`Traits` of all tasks that are registered in this process, by gym id, as JSON."""
    import gymnasium

    from isaaclab_pc.runners import agent_key

    traits = {
        task_id: Traits(has_expert=_has_expert_module(task_id), has_sizes=agent_key("rsl_rl", "large") in spec.kwargs)
        for task_id, spec in gymnasium.registry.items()
        if "env_cfg_entry_point" in spec.kwargs
    }
    return json.dumps(traits)


def all_ids() -> list[str]:
    """Return every gym id that Isaac Lab can configure, ours and those of other installed packages.

    Raises:
        ConfigError: Isaac Lab's tasks cannot be imported.
    """
    return sorted(registered_tasks())


@functools.cache
def registered_tasks() -> dict[str, Traits]:
    """Return what every task that Isaac Lab can configure offers, by gym id.

    A child process lists them, which takes seconds, because importing Isaac Lab's tasks loads torch.

    Raises:
        ConfigError: Isaac Lab's tasks cannot be imported.
    """
    done = subprocess.run([sys.executable, "-P", "-c", _LIST_ALL], capture_output=True, text=True, check=False)
    # Imports print lines of their own.
    lines = [line for line in done.stdout.splitlines() if line.startswith("tasks:")]
    if done.returncode != 0 or not lines:
        last_line = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise ConfigError(f"Isaac Lab's tasks cannot be imported: {last_line}")
    return json.loads(lines[-1].removeprefix("tasks:"))


def resolve_task(name: str) -> str:
    """Turn what the user wrote into a gym id.

    Args:
        name: A short name or a gym id.

    Raises:
        ConfigError: No task has that name; the message shows similar ones.
    """
    # What is near a short name and of letters alone is most likely a slip; the short names are known without gymnasium.
    folders = short_names()
    looks_short = name.islower() and name.replace("_", "").isalpha()
    if looks_short and name not in folders and difflib.get_close_matches(name, folders):
        raise _not_a_task(name, folders)

    ours = our_tasks()
    if name in ours:
        return ours[name]
    if name in ours.values() or name in all_ids():
        return name
    raise _not_a_task(name, [*ours, *all_ids()])


def short_names() -> list[str]:
    """Return the short names of this package's tasks, those of their folders, in milliseconds."""
    spec = importlib.util.find_spec("isaaclab_pc.tasks")
    assert spec is not None
    return [module.name for module in pkgutil.iter_modules(spec.submodule_search_locations) if module.ispkg]


def _not_a_task(name: str, known: Sequence[str]) -> ConfigError:
    return ConfigError(f"task={name} is not a task: {closest(name, known)} scripts/list_tasks.py shows all.")


def short_name(task_id: str) -> str:
    """Return the short name of one of our tasks, or the gym id of another package's task."""
    return next((short for short, ours in our_tasks().items() if ours == task_id), task_id)
