# SPDX-License-Identifier: BSD-3-Clause
"""Differences between runs as tables: one row a measure, one column a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from isaaclab_pc.launch.run_record import RunData
from isaaclab_pc.report.read_run import RunFacts, without_effect
from isaaclab_pc.report.sections import changed_settings, environment_speed, faults, task_name
from isaaclab_pc.report.words import NOTHING, count, duration, memory, shortened, success_text
from isaaclab_pc.settings import RunSettings

__all__ = ["differences", "measures", "run_names"]


def run_names(folders: Sequence[Path]) -> list[str]:
    """Return short names that tell the runs apart: the ends of their paths, as long as is needed for that.

    Args:
        folders: Folders of runs; where one is given twice, its names are numbered.
    """
    parts = [folder.resolve().parts for folder in folders]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-length:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    return [f"{folder.name} ({number})" for number, folder in enumerate(folders, start=1)]


def measures(runs: Sequence[RunFacts]) -> list[tuple[str, ...]]:
    """Return the result of each run, what it cost, and its health."""
    rows: dict[str, Callable[[RunFacts], str]] = {
        "Task": task_name,
        "Status": lambda run: run.data.status,
        "Success": lambda run: success_text(run.data.evaluation.success if run.data.evaluation else None),
        "Episodes": lambda run: count(run.data.evaluation.episodes if run.data.evaluation else None),
        "Mean return": _mean_return,
        "Iterations": lambda run: count(run.data.completed_iterations),
        "Environment steps": lambda run: count(run.data.env_steps),
        "Time": lambda run: duration(run.data.wall_s),
        "Environments": lambda run: str(run.data.num_envs),
        "Steps per second": lambda run: count(environment_speed(run)),
        "Peak memory": lambda run: memory(run.data.peak_bytes),
        "Ended by the guard": lambda run: count(sum(faults(run).values())),
        "Restarts": lambda run: count(len(run.data.restarts)),
    }
    return [(name, *map(cell, runs)) for name, cell in rows.items()]


def _mean_return(run: RunFacts) -> str:
    result = run.data.evaluation
    return NOTHING if result is None or result.mean_return is None else f"{result.mean_return:.2f}"


def differences(runs: Sequence[tuple[Path, RunData, RunSettings | None]]) -> list[tuple[str, ...]]:
    """Return what is not the same in all runs: settings, those of task and agent included, commit and versions.

    Args:
        runs: Their folders, records and settings; None where those cannot be read.

    Returns:
        What differs, with its value in every run.
    """
    changed = [{row.key: row for row in changed_settings(settings)} for _, _, settings in runs]
    defaults = {key: row.default for rows in changed for key, row in rows.items()}
    found = {
        key: [
            "unknown" if settings is None else rows[key].value if key in rows else default
            for (_, _, settings), rows in zip(runs, changed, strict=True)
        ]
        for key, default in defaults.items()
    }
    for number, (folder, _, _) in enumerate(runs):
        for key in found.keys() & set(without_effect(folder)):
            found[key][number] = NOTHING
    found["commit"] = [shortened(data.git or NOTHING) for _, data, _ in runs]
    for package in dict.fromkeys(package for _, data, _ in runs for package in data.versions):
        versions = [shortened(data.versions.get(package, NOTHING)) for _, data, _ in runs]
        found[f"version of {shortened(package)}"] = versions
    return [(name, *values) for name, values in found.items() if len(set(values)) > 1]
