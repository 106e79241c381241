# SPDX-License-Identifier: BSD-3-Clause
"""Whether the settings of many runs fit their tasks and agents; nothing is simulated."""

from __future__ import annotations

import json
from pathlib import Path

from isaaclab_pc.scaling import SearchSettings
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.workers.resolve import resolve

__all__ = ["check"]


def check(folder: Path, result_path: Path) -> int:
    """Read the configs of all runs that have their settings in a folder.

    Args:
        folder: Holds their settings files.
        result_path: Where the numbers of iterations that the runs have go: a list in JSON, each number once.

    Returns:
        The exit code.

    Raises:
        ConfigError: The settings of one do not fit.
    """
    iterations = set()
    for path in sorted(folder.glob("*.yaml")):
        settings = RunSettings.load(path)
        num_envs = settings.num_envs
        if num_envs == "auto":
            num_envs = SearchSettings.of(settings).sizes.start
        iterations.add(resolve(settings, num_envs, "check").max_iterations)

    result_path.write_text(json.dumps(sorted(iterations)), encoding="utf-8")
    return 0
