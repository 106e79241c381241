# SPDX-License-Identifier: BSD-3-Clause
"""Names of tasks: short names for ours, gym ids for all."""

from __future__ import annotations

import difflib
import functools
import importlib.util
import json
import os
import pkgutil
import select
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import TypedDict

from isaaclab_pc.cli.plugins import ISAACLAB_TASKS, load_task_packages
from isaaclab_pc.errors import ConfigError, closest
from isaaclab_pc.terminal.screen import current

__all__ = [
    "all_ids",
    "answer_with_tasks",
    "broken_packages",
    "describe_registered",
    "expert_tasks",
    "has_expert",
    "has_sizes",
    "our_tasks",
    "registered_tasks",
    "require_expert",
    "resolve_task",
    "short_name",
    "short_names",
    "task_modules",
]

SLOW_SECONDS = 20.0
"""Time without a word from the process that imports all packages, after which it is said which it is at [s]."""

PREFIX = "IsaacPC-"
"""Begins the gym ids of this package's tasks."""

_LIST_ALL = """
import sys
from isaaclab_pc.cli.task_names import answer_with_tasks
answer_with_tasks(int(sys.argv[1]))
"""


class Traits(TypedDict):
    """Entry points of a task beside its environment."""

    has_expert: bool
    """Whether the package of its environment has a module ``expert``."""
    has_sizes: bool
    """Whether its agents come in every size, as those of ``register_task`` do."""
    modules: list[str]
    """Modules of its environment and its configurations."""


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
    """Tell whether a task of any package has an expert: a module ``expert`` beside that of its environment.

    Raises:
        ConfigError: As :func:`registered_tasks`.
    """
    if task_id in our_tasks().values():
        return task_id in expert_tasks().values()
    return _traits(task_id)["has_expert"]


def has_sizes(task_id: str) -> bool:
    """Tell whether a task of any package has agents in every size; raises as :func:`registered_tasks` does."""
    return task_id in our_tasks().values() or _traits(task_id)["has_sizes"]


def _traits(task_id: str) -> Traits:
    return registered_tasks().get(task_id, {"has_expert": False, "has_sizes": False, "modules": []})


def task_modules(task_id: str) -> list[str]:
    """Return the modules of a task's environment and configurations; raises as :func:`registered_tasks` does."""
    return _modules(task_id) if task_id in our_tasks().values() else _traits(task_id)["modules"]


def _modules(task_id: str) -> list[str]:
    """Return the modules that the registry names for a task; not those of functions that make the agents of any."""
    import gymnasium

    spec = gymnasium.spec(task_id)
    entries = [spec.entry_point, *(value for name, value in spec.kwargs.items() if name.endswith("_entry_point"))]
    names = [
        entry.partition(":")[0] if isinstance(entry, str) else getattr(entry, "__module__", "") for entry in entries
    ]
    return sorted({name for name in names if name and name != "isaaclab_pc.tasks.registration"})


def require_expert(task_id: str, asked: str) -> None:
    """Refuse a task without an expert; ``asked`` says in the message what asks for one."""
    if not has_expert(task_id):
        raise ConfigError(f"{asked}: {task_id} has no expert; these have one: {', '.join(sorted(expert_tasks()))}.")


def _has_expert_module(task_id: str) -> bool:
    package = _package(task_id)
    try:
        return bool(package) and importlib.util.find_spec(f"{package}.expert") is not None
    except (Exception, SystemExit):
        # Somebody's task whose package cannot be imported.
        return False


def _package(task_id: str) -> str:
    """Return the package of a task's environment."""
    import gymnasium

    entry_point = gymnasium.spec(task_id).entry_point
    return entry_point.partition(":")[0].rpartition(".")[0] if isinstance(entry_point, str) else ""


def describe_registered() -> dict[str, Traits]:
    """Return what all tasks offer that are registered in this process, by gym id."""
    import gymnasium

    from isaaclab_pc.learners import agent_key

    return {
        task_id: Traits(
            has_expert=_has_expert_module(task_id),
            has_sizes=agent_key("rsl_rl", "large") in spec.kwargs,
            modules=_modules(task_id),
        )
        for task_id, spec in gymnasium.registry.items()
        if "env_cfg_entry_point" in spec.kwargs
    }


def answer_with_tasks(descriptor: int) -> None:
    """Write the tasks of all installed packages to a pipe: lines of JSON, the name of each package before its import.

    Args:
        descriptor: The pipe, which nothing else is written to: what is imported prints lines of its own.
    """
    with os.fdopen(descriptor, "w", buffering=1, encoding="utf-8") as pipe:
        broken = load_task_packages(lambda name: pipe.write(json.dumps(name) + "\n"))
        pipe.write(json.dumps({"tasks": describe_registered(), "broken": broken}) + "\n")


def all_ids() -> list[str]:
    """Return every gym id that Isaac Lab can configure; raises as :func:`registered_tasks` does."""
    return sorted(registered_tasks())


def registered_tasks() -> dict[str, Traits]:
    """Return what every task that Isaac Lab can configure offers, by gym id.

    A package that cannot be imported is warned of, once.

    Raises:
        ConfigError: Isaac Lab's tasks cannot be imported, or a package ends the process that imports it.
    """
    return _listing()[0]


def broken_packages() -> dict[str, str]:
    """Return what is wrong with the packages of tasks that cannot be imported, by name."""
    return _listing()[1]


@functools.cache
def _listing() -> tuple[dict[str, Traits], dict[str, str]]:
    """Return the tasks of all packages, and what is wrong with those that cannot be imported, by name.

    A child process lists them, which takes seconds, because importing Isaac Lab's tasks loads torch.
    """
    importing = ISAACLAB_TASKS
    told = ""
    outlet, inlet = os.pipe()
    with tempfile.TemporaryFile() as errors, os.fdopen(outlet, "rb", buffering=0) as pipe:
        child = subprocess.Popen(
            [sys.executable, "-P", "-c", _LIST_ALL, str(inlet)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            pass_fds=(inlet,),
        )
        os.close(inlet)
        try:
            text = b""
            while True:
                if told != importing and not select.select([pipe], [], [], SLOW_SECONDS)[0]:
                    told = importing
                    current().say(f"note: importing {importing} takes long", stderr=True)
                chunk = pipe.read(1 << 16)
                if not chunk:
                    break
                *lines, text = (text + chunk).split(b"\n")
                for line in map(json.loads, lines):
                    if isinstance(line, dict):
                        for name, error in line["broken"].items():
                            current().warn(f"warning: {name} cannot be imported, and its tasks are missing: {error}")
                        return line["tasks"], line["broken"]
                    importing = line
            code = child.wait()
        finally:
            # Whatever it still has running was started by what it has imported.
            child.kill()
            child.wait()
        errors.seek(0)
        last_line = (errors.read().decode(errors="replace").strip().splitlines() or [f"exit code {code}"])[-1]
    raise ConfigError(f"{importing} cannot be imported: {last_line}. Mend it or uninstall it.")


def resolve_task(name: str) -> str:
    """Turn what the user wrote into a gym id.

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
    raise _not_a_task(name, [*ours, *all_ids()], broken_packages())


def short_names() -> list[str]:
    """Return the short names of this package's tasks, those of their folders, in milliseconds."""
    spec = importlib.util.find_spec("isaaclab_pc.tasks")
    assert spec is not None
    return [module.name for module in pkgutil.iter_modules(spec.submodule_search_locations) if module.ispkg]


def _not_a_task(name: str, known: Sequence[str], broken: Mapping[str, str] | None = None) -> ConfigError:
    causes = [f" It may be of {owner}, which cannot be imported: {why}." for owner, why in (broken or {}).items()]
    near = closest(name, known)
    return ConfigError(f"task={name} is not a task:{''.join(causes)} {near} scripts/list_tasks.py shows all.")


def short_name(task_id: str) -> str:
    """Return the short name of one of our tasks, or the gym id of another package's task."""
    return next((short for short, ours in our_tasks().items() if ours == task_id), task_id)
