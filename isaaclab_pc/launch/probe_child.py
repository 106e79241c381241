# SPDX-License-Identifier: BSD-3-Clause
"""The command line of a child that tries a number of environments."""

from __future__ import annotations

from pathlib import Path

from isaaclab_pc.launch.worker import ProbeJob, worker_command
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
        job = ProbeJob(apply_overrides(settings, overrides), num_envs, result_path)
        return worker_command(job, result_path.with_suffix(".job.json"))

    return command
