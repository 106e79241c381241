# SPDX-License-Identifier: BSD-3-Clause
"""Names of tasks: short names for ours, gym ids for all."""

import difflib
import functools
import importlib.util
import json
import os
import pkgutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TypedDict

from isaaclab_pc.errors import ConfigError, closest
from isaaclab_pc.processes.child_process import is_stop
from isaaclab_pc.terminal.screen import current

PREFIX = "IsaacPC-"
"""Begins the gym ids of this package's tasks."""

_LIST_ALL = "import sys; from isaaclab_pc.cli.task_names import write_tasks; write_tasks(sys.argv[1])"


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


def task_traits(task_id: str) -> Traits:
    """Return what a task of any package offers; raises as :func:`registered_tasks` does."""
    if task_id in our_tasks().values():
        return _describe(task_id)
    return registered_tasks().get(task_id, Traits(has_expert=False, has_sizes=False, modules=[]))


def _describe(task_id: str) -> Traits:
    """Return what a task offers that is registered in this process."""
    import gymnasium

    from isaaclab_pc.learners import agent_key

    has_sizes = agent_key("rsl_rl", "large") in gymnasium.spec(task_id).kwargs
    return Traits(has_expert=_has_expert_module(task_id), has_sizes=has_sizes, modules=_modules(task_id))


def _modules(task_id: str) -> list[str]:
    """Return the modules that the registry names for a task; not those of functions that make the agents of any."""
    import gymnasium

    spec = gymnasium.spec(task_id)
    entries = [spec.entry_point, *(value for name, value in spec.kwargs.items() if name.endswith("_entry_point"))]
    names = [
        entry.partition(":")[0] if isinstance(entry, str) else getattr(entry, "__module__", "") for entry in entries
    ]
    return sorted({name for name in names if name and name != "isaaclab_pc.tasks.registration"})


def require_expert(task_id: str, asked: str, instead: str = "") -> None:
    """Refuse a task without an expert with a ConfigError: what asks for one, and what to do instead."""
    if not task_traits(task_id)["has_expert"]:
        having = ", ".join(sorted(expert_tasks()))
        raise ConfigError(f"{asked}: {task_id} has no expert; these have one: {having}.{instead}")


def _has_expert_module(task_id: str) -> bool:
    package = _package(task_id)
    try:
        return bool(package) and importlib.util.find_spec(f"{package}.expert") is not None
    except (Exception, SystemExit):
        # Somebody's task whose package cannot be imported.
        return False


def _package(task_id: str) -> str:
    import gymnasium

    entry_point = gymnasium.spec(task_id).entry_point
    return entry_point.partition(":")[0].rpartition(".")[0] if isinstance(entry_point, str) else ""


def describe_registered() -> dict[str, Traits]:
    """Return what all tasks offer that are registered in this process, by gym id."""
    import gymnasium

    configurable = [name for name, spec in gymnasium.registry.items() if "env_cfg_entry_point" in spec.kwargs]
    return {task_id: _describe(task_id) for task_id in configurable}


def load_task_packages(begin: Callable[[str], object] = lambda name: None) -> dict[str, str]:
    """Import Isaac Lab's tasks and those of other packages, found by their entry points ``isaaclab.tasks``.

    ``begin`` gets the name of each package of others before it is imported. Returns the errors of those that cannot be
    imported, on one line, by name.
    """
    import isaaclab_tasks  # noqa: F401 (registers Isaac Lab's)

    broken = {}
    for entry_point in metadata.entry_points(group="isaaclab.tasks"):
        owner = "" if entry_point.dist is None else f" of {entry_point.dist.name}"
        name = f"{entry_point.value}{owner}"
        begin(name)
        try:
            entry_point.load()
        except BaseException as error:
            if is_stop(error):
                raise
            broken[name] = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return broken


def write_tasks(path: str) -> None:
    """Write the tasks of all installed packages as lines of JSON, the name of each package before its import.

    The process ends here, whatever the packages have left running in it.
    """
    with open(path, "w", buffering=1, encoding="utf-8") as file:
        broken = load_task_packages(lambda name: file.write(json.dumps(name) + "\n"))
        file.write(json.dumps([describe_registered(), broken]) + "\n")
    os._exit(0)


def registered_tasks() -> dict[str, Traits]:
    """Return what every task that Isaac Lab can configure offers, by gym id; warn of broken packages once.

    Raises:
        ConfigError: Isaac Lab's tasks cannot be imported, or a package ends the process that imports it.
    """
    return _listing()[0]


@functools.cache
def _listing() -> tuple[dict[str, Traits], dict[str, str]]:
    """List the tasks of all packages, and the errors of broken ones, in a child: Isaac Lab's tasks load torch."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as errors:
        answer = Path(folder, "tasks")
        child = subprocess.run(
            [sys.executable, "-P", "-c", _LIST_ALL, str(answer)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        *lines, _ = answer.read_text(encoding="utf-8").split("\n") if answer.exists() else [""]
        errors.seek(0)
        why = (errors.read().decode(errors="replace").strip().splitlines() or [f"exit code {child.returncode}"])[-1]

    # The listing, or the package that was being imported when the process ended; Isaac Lab's own is the first.
    last = json.loads(lines[-1]) if lines else "isaaclab_tasks"
    if isinstance(last, str):
        raise ConfigError(f"{last} cannot be imported: {why}. Mend it or uninstall it.")
    tasks, broken = last
    for name, error in broken.items():
        current().warn(f"warning: {name} cannot be imported, and its tasks are missing: {error}")
    return tasks, broken


def resolve_task(name: str) -> str:
    """Turn a short name or a gym id into a gym id, or raise a ConfigError with similar names."""
    # A slip in a short name is found without gymnasium and without importing packages.
    folders = short_names()
    looks_short = name.islower() and name.replace("_", "").isalpha()
    if looks_short and name not in folders and difflib.get_close_matches(name, folders):
        raise _not_a_task(name, folders, {})

    ours = our_tasks()
    if name in ours:
        return ours[name]
    if name in ours.values() or name in registered_tasks():
        return name
    raise _not_a_task(name, [*ours, *registered_tasks()], _listing()[1])


def short_names() -> list[str]:
    """Return the short names of this package's tasks, those of their folders, in milliseconds."""
    spec = importlib.util.find_spec("isaaclab_pc.tasks")
    assert spec is not None
    return [module.name for module in pkgutil.iter_modules(spec.submodule_search_locations) if module.ispkg]


def _not_a_task(name: str, known: Sequence[str], broken: Mapping[str, str]) -> ConfigError:
    causes = [f" It may be of {owner}, which cannot be imported: {why}." for owner, why in broken.items()]
    return ConfigError(
        f"task={name} is not a task:{''.join(causes)} {closest(name, known)} scripts/list_tasks.py shows all."
    )


def short_name(task_id: str) -> str:
    """Return the short name of one of our tasks, or the gym id of another package's task."""
    return next((short for short, ours in our_tasks().items() if ours == task_id), task_id)
