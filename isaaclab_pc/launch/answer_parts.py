# SPDX-License-Identifier: BSD-3-Clause
"""What the answer of a search for the number of environments depends on, beside the machine. Loads no torch."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping

from isaaclab_pc.launch.task_names import task_modules
from isaaclab_pc.packages import installed_versions
from isaaclab_pc.runners import RUNNERS
from isaaclab_pc.scaling.sources import digest_of, places_of
from isaaclab_pc.settings import RunSettings

__all__ = ["answer_parts"]

_ALLOCATING = (
    *("torch", "warp-lang", "newton", "mujoco", "mujoco-warp", "ovphysx", "isaacsim", "numba"),
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


def answer_parts(settings: RunSettings) -> Mapping[str, str]:
    """Return what the best number of environments depends on, beside the machine, its driver and the search.

    The configurations of environment and agent follow from the settings, the sources of the task and the versions of
    libraries. What a configuration reads from elsewhere shows in the digest that trials and trainings leave of theirs.

    Args:
        settings: The run's settings, device and algorithm chosen.

    Returns:
        Text by name.

    Raises:
        ConfigError: The task is of another package, and Isaac Lab's tasks cannot be imported.
    """
    relevant = {key: value for key, value in settings.model_dump().items() if key not in _IRRELEVANT}
    versions = installed_versions((*_ALLOCATING, _LEARNING[settings.runner]))
    return {
        "settings": json.dumps(relevant, sort_keys=True),
        "files": json.dumps(_named_files(settings)),
        "sources": _sources(settings.task),
        "versions": json.dumps(versions, sort_keys=True),
    }


@functools.cache
def _sources(task: str) -> str:
    return digest_of(places_of(task_modules(task)))


def _named_files(settings: RunSettings) -> list[tuple[int, int]]:
    """Return size and time [ns] of the files that the user's overrides name, such as assets."""
    values = [text.partition("=")[2].strip("'\"") for text in (*settings.env_overrides, *settings.agent_overrides)]
    stats = [os.stat(value) for value in values if os.path.isfile(value)]
    return [(stat.st_size, stat.st_mtime_ns) for stat in stats]
