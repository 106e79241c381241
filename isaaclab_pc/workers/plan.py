# SPDX-License-Identifier: BSD-3-Clause
"""Read the batches and problems of a run off its configs; nothing is simulated."""

from __future__ import annotations

from pathlib import Path

from isaaclab_pc.scaling.machine import Machine
from isaaclab_pc.scaling.preflight import Plan, preflight
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.workers.resolve import resolve

__all__ = ["plan"]


def plan(settings_path: Path, num_envs: int, result_path: Path) -> int:
    """Write the batch plan of a run and the findings of its preflight.

    Args:
        settings_path: The run's settings.
        num_envs: Environments to plan for.
        result_path: Where the :class:`~isaaclab_pc.scaling.preflight.Plan` goes.

    Returns:
        The exit code.

    Raises:
        ConfigError: The settings do not fit.
    """
    resolved = resolve(RunSettings.load(settings_path), num_envs, "plan")
    findings = preflight(resolved.env_cfg, Machine.here(resolved.device), resolved.visualizers)
    Plan(resolved.plan, tuple(f"{finding.severity}: {finding}" for finding in findings)).write(result_path)
    return 0
