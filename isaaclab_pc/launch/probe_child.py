# SPDX-License-Identifier: BSD-3-Clause
"""The command line of a child that tries a number of environments."""

from __future__ import annotations

from pathlib import Path

from isaaclab_pc.launch.child_process import worker_command
from isaaclab_pc.scaling.auto_num_envs import apply_overrides
from isaaclab_pc.scaling.fit import ChildCommand
from isaaclab_pc.scaling.trial import Overrides
from isaaclab_pc.settings import RunSettings

__all__ = ["probe_command"]


def probe_command(settings: RunSettings) -> ChildCommand:
    """Return the function that gives the command line of a child that tries a size of a run.

    Args:
        settings: The run's settings, device and physics backend chosen.
    """

    def command(num_envs: int, result_path: Path, overrides: Overrides) -> list[str]:
        path = result_path.with_suffix(".yaml")
        apply_overrides(settings, overrides).save(path)
        return worker_command("probe", path, num_envs=num_envs, result=result_path)

    return command
