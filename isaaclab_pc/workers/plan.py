# SPDX-License-Identifier: BSD-3-Clause
"""What the configs say about a run's memory and batches; nothing is simulated."""

from __future__ import annotations

import json
from pathlib import Path

from isaaclab_pc.files import write_text_atomically
from isaaclab_pc.launch.run_folder import LOGS
from isaaclab_pc.scaling.earlier_trials import find_trials
from isaaclab_pc.scaling.machine import Machine
from isaaclab_pc.scaling.memory_plan import missing_kinds, predict_memory
from isaaclab_pc.scaling.preflight import preflight
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.workers.session import resolve

__all__ = ["plan"]


def plan(settings_path: Path, num_envs: int, result_path: Path) -> int:
    """Tell what the configs say about a run's memory and batches.

    Args:
        settings_path: The run's settings.
        num_envs: Environments to plan for.
        result_path: Where the JSON goes: ``parts`` as of :func:`predict_memory`, ``missing`` kinds that only a trial
            tells, ``batch``, and ``findings`` of the preflight.

    Returns:
        The exit code.

    Raises:
        ConfigError: The settings do not fit.
    """
    settings = RunSettings.load(settings_path)
    resolved = resolve(settings, num_envs, "plan")

    measured = find_trials(settings, LOGS / "scale")
    parts = predict_memory(resolved, measured)
    findings = preflight(resolved.env_cfg, resolved.plan, Machine.here(resolved.device), resolved.visualizers)

    content = {
        "parts": parts,
        "missing": missing_kinds(parts, resolved, measured),
        "batch": vars(resolved.plan),
        "findings": [f"{finding.severity}: {finding}" for finding in findings],
    }
    write_text_atomically(result_path, json.dumps(content, indent=1) + "\n")
    return 0
