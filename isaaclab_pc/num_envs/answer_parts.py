# SPDX-License-Identifier: BSD-3-Clause
"""The parts of a run that decide how many environments fit: settings, files, sources and versions.

Loads no torch, and imports none of the sources.
"""

import contextlib
import functools
import hashlib
import importlib.util
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from isaaclab_pc.cli.task_names import task_traits
from isaaclab_pc.learners import RUNNERS
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.utils.packages import installed_versions

_ALLOCATING = (
    *("torch", "warp-lang", "newton", "mujoco", "mujoco-warp", "ovphysx", "isaacsim"),
    *("isaaclab", "isaaclab-tasks", "isaaclab-newton", "isaaclab-physx", "isaaclab-ov", "isaaclab-rl", "tensordict"),
)
"""Distributions that allocate memory or take time in a training, beside its learning library."""

_LEARNING = {"rsl_rl": "rsl-rl-lib", "rl_games": "rl-games", "skrl": "skrl", "sb3": "stable-baselines3"}
"""Distribution of each learning library."""
assert _LEARNING.keys() == RUNNERS.keys()

_IRRELEVANT = {
    *("num_envs", "seed", "max_iterations", "resume", "scaling", "eval", "supervise", "logger", "host", "force"),
    *("device", "node_rank", "rendezvous"),
}
"""Settings on which neither memory nor speed depends, or which the search takes by themselves."""

_ROOMS = ("agents", "envs", "sensors", "guards", "faults", "physics", "assets", "learners", "tensors")
"""Folders of this package that compute or allocate in a training, beside its task. The others start it, show it and
search; they can change without costing anybody a search."""

_LIBRARIES = ("isaaclab", "isaacsim", "omni", "torch", "gymnasium", "rsl_rl", "rl_games", "skrl", "stable_baselines3")
"""How packages begin that have a version, by which they are known. Of the tasks in them, only their own folder counts:
people edit those in place."""

_KINDS = {
    *(".py", ".yaml", ".yml", ".json", ".toml", ".xml", ".mjcf", ".urdf", ".usd", ".usda", ".usdc", ".usdz"),
    *(".obj", ".stl", ".dae", ".ply", ".glb", ".gltf"),
}
"""Kinds of files that count in a folder: sources, configurations and assets, no policies and no logs."""


def answer_parts(settings: RunSettings) -> Mapping[str, str]:
    """Return the parts of a run on which the best number of environments depends, beside machine, driver and search.

    Raises:
        ConfigError: The task is of another package, and Isaac Lab's tasks cannot be imported.
    """
    versions = installed_versions((*_ALLOCATING, _LEARNING[settings.runner]))
    values = [text.partition("=")[2].strip("'\"") for text in (*settings.env_overrides, *settings.agent_overrides)]
    # Such as assets.
    stats = [os.stat(value) for value in values if os.path.isfile(value)]
    return {
        "settings": json.dumps(settings.model_dump(exclude=_IRRELEVANT), sort_keys=True),
        "files": json.dumps([(stat.st_size, stat.st_mtime_ns) for stat in stats]),
        "sources": _sources(settings.task),
        "versions": json.dumps(versions, sort_keys=True),
    }


@functools.cache
def _sources(task: str) -> str:
    return digest_of(places_of(task_traits(task)["modules"]))


def places_of(modules: Iterable[str]) -> list[Path]:
    """Return the files and folders of a task's modules, as they are registered, and the rooms that all tasks share.

    It is the whole package of a module; of this package, and of libraries that have a version, its own folder.
    """
    package = Path(__file__).parents[1]
    places = [package / room for room in _ROOMS]
    for module in modules:
        top, *parts = module.split(".")
        found = importlib.util.find_spec(top)
        if found is None:
            continue
        roots = list(found.submodule_search_locations or ())
        if not roots:
            places += [Path(found.origin)] if found.origin is not None else []
        elif top == package.name or top.startswith(_LIBRARIES):
            places += [Path(root, *parts[:-1]) for root in roots] if parts[1:] else []
        else:
            places += map(Path, roots)
    return sorted({place.resolve() for place in places})


def digest_of(places: Iterable[Path]) -> str:
    """Hash the contents of files and of folders, whatever their paths; those that cannot be read are passed over."""
    digest = hashlib.sha256()
    for place in places:
        files = [place] if place.is_file() else sorted(place.rglob("*"))
        for file in files:
            hidden = any(part.startswith((".", "__")) for part in file.relative_to(place).parts[:-1])
            if file.suffix.lower() in _KINDS and not hidden and file.is_file():
                digest.update(f"{place.name}/{file.relative_to(place)}\0".encode(errors="surrogateescape"))
                with contextlib.suppress(OSError):
                    digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()
