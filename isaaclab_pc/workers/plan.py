# SPDX-License-Identifier: BSD-3-Clause
"""Read the batches and problems of a run off its configs; nothing is simulated."""

from isaaclab_pc.num_envs.machine import Machine
from isaaclab_pc.num_envs.preflight import Plan, preflight
from isaaclab_pc.run.jobs import PlanJob
from isaaclab_pc.workers.resolve import resolve


def plan(job: PlanJob) -> int:
    """Write the batch plan of a run and the findings of its preflight.

    Raises:
        ConfigError: The settings do not fit.
    """
    resolved = resolve(job.settings, job.num_envs, "plan")
    findings = preflight(resolved.env_cfg, Machine.here(resolved.device), resolved.settings.visualizers)
    Plan(resolved.plan, tuple(f"{finding.severity}: {finding}" for finding in findings)).write(job.result)
    return 0
