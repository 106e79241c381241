# SPDX-License-Identifier: BSD-3-Clause
"""Differences between runs as tables: one row a measure, one column a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from isaaclab_pc.report.read_run import RunFacts
from isaaclab_pc.report.run_tables import setting_rows, task_name
from isaaclab_pc.report.words import NOTHING, count, decimals, duration, memory, shortened, success_text

__all__ = ["differences", "measures"]


def measures(runs: Sequence[RunFacts]) -> list[tuple[str, ...]]:
    """Return the result of each run, its cost and its health."""
    rows: dict[str, Callable[[RunFacts], str]] = {
        "Task": task_name,
        "Status": lambda run: run.data.status,
        "Success": lambda run: success_text(run.data.evaluation.success if run.data.evaluation else None),
        "Episodes": lambda run: count(run.data.evaluation.episodes if run.data.evaluation else None),
        "Mean return": lambda run: decimals(run.data.evaluation.mean_return if run.data.evaluation else None),
        "Iterations": lambda run: count(run.data.completed_iterations),
        "Environment steps": lambda run: count(run.data.env_steps),
        "Time": lambda run: duration(run.data.wall_s),
        "Environments": lambda run: str(run.data.num_envs),
        "Steps per second": lambda run: count(run.mean_speed),
        "Peak memory": lambda run: memory(run.data.peak_bytes),
        "Ended by the guard": lambda run: count(sum(run.faults.values())),
        "Restarts": lambda run: count(len(run.data.restarts)),
    }
    return [(name, *map(cell, runs)) for name, cell in rows.items()]


def differences(runs: Sequence[RunFacts]) -> list[tuple[str, ...]]:
    """Return what is not the same in all runs: settings, those of task and agent included, commit and versions.

    Returns:
        Names, each with its value in every run.
    """
    rows = [{row.key: row for row in setting_rows(run.settings)} for run in runs]
    pairs = list(zip(runs, rows, strict=True))
    defaults = {key: row.default for of_run in rows for key, row in of_run.items() if row.is_changed}
    found = {
        key: [_value(run, of_run[key].value if key in of_run else default, key) for run, of_run in pairs]
        for key, default in defaults.items()
    }
    found["commit"] = [run.data.git or NOTHING for run in runs]
    for package in dict.fromkeys(package for run in runs for package in run.data.versions):
        found[f"version of {package}"] = [run.data.versions.get(package, NOTHING) for run in runs]
    return [tuple(map(shortened, (name, *values))) for name, values in found.items() if len(set(values)) > 1]


def _value(run: RunFacts, value: str, key: str) -> str:
    """Return a setting's value in a run, as far as it is known and has a meaning there."""
    if run.settings is None:
        return "unknown"
    return NOTHING if key in run.unused else value
