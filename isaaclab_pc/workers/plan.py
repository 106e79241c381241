# SPDX-License-Identifier: BSD-3-Clause
"""Predict a run's memory and batches from its configs; nothing is simulated."""

from __future__ import annotations

from isaaclab_pc.launch.run_folder import LOGS
from isaaclab_pc.launch.worker import PlanJob
from isaaclab_pc.scaling.earlier_trials import RunKind, find_earlier_trials
from isaaclab_pc.scaling.machine import Machine
from isaaclab_pc.scaling.memory_plan import missing_kinds, predict_memory
from isaaclab_pc.scaling.plan_report import PlanReport
from isaaclab_pc.scaling.preflight import preflight
from isaaclab_pc.workers.resolve import resolve

__all__ = ["plan"]


def plan(job: PlanJob) -> int:
    """Tell what the configs say about a run's memory and batches.

    Args:
        job: The run's settings, and for how many environments.

    Returns:
        The exit code.

    Raises:
        ConfigError: The settings do not fit.
    """
    resolved = resolve(job.settings, job.num_envs, "plan")

    earlier = find_earlier_trials(RunKind.of(job.settings), LOGS / "scale")
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
    report.write(job.result)
    return 0
