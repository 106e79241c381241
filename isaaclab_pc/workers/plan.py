# SPDX-License-Identifier: BSD-3-Clause
"""Predict a run's memory and batches from its configs; nothing is simulated."""

from __future__ import annotations

from pathlib import Path

from isaaclab_pc.launch.run_folder import LOGS
from isaaclab_pc.scaling.earlier_trials import RunKind, find_earlier_trials
from isaaclab_pc.scaling.machine import Machine
from isaaclab_pc.scaling.memory_plan import missing_kinds, predict_memory
from isaaclab_pc.scaling.plan_report import PlanReport
from isaaclab_pc.scaling.preflight import preflight
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.workers.resolve import resolve

__all__ = ["plan"]


def plan(settings_path: Path, num_envs: int, result_path: Path) -> int:
    """Tell what the configs say about a run's memory and batches.

    Args:
        settings_path: The run's settings.
        num_envs: Environments to plan for.
        result_path: Where the :class:`~isaaclab_pc.scaling.plan_report.PlanReport` goes.

    Returns:
        The exit code.

    Raises:
        ConfigError: The settings do not fit.
    """
    settings = RunSettings.load(settings_path)
    resolved = resolve(settings, num_envs, "plan")

    earlier = find_earlier_trials(RunKind.of(settings), LOGS / "scale")
    parts = predict_memory(resolved, earlier)
    machine = Machine.here(resolved.device)
    findings = preflight(
        resolved.env_cfg, resolved.plan, machine, resolved.visualizers, replay_samples=resolved.replay_samples
    )

    report = PlanReport(
        parts=parts,
        missing=tuple(missing_kinds(parts, resolved, earlier)),
        batch=resolved.plan,
        findings=tuple(f"{finding.severity}: {finding}" for finding in findings),
    )
    report.write(result_path)
    return 0
