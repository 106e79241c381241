# SPDX-License-Identifier: BSD-3-Clause
"""The numbers of a comparison of runs as CSV files. Loads no torch."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from isaaclab_pc.report.read_run import RunFacts
from isaaclab_pc.run.evaluation import Evaluation
from isaaclab_pc.run.record import CurvePoint

__all__ = ["first_reaching", "write_csv_files"]


def first_reaching(threshold: float, run: RunFacts) -> CurvePoint | None:
    """Return a run's first evaluation with a success rate of at least a threshold; None where there is none."""
    rated = ((point, point.evaluation.success_rate) for point in run.evaluations)
    return next((point for point, rate in rated if rate is not None and rate >= threshold), None)


def write_csv_files(
    folder: Path, runs: Sequence[RunFacts], threshold: float, differing: Sequence[tuple[str, ...]]
) -> None:
    """Write ``runs.csv``, ``evaluations.csv``, ``iterations.csv`` and ``differences.csv``.

    Args:
        folder: Where to.
        runs: The runs, with their names.
        threshold: Success rate that ``runs.csv`` has the steps and the time to.
        differing: What is not the same in all runs, with its value in every run.

    Raises:
        OSError: A file cannot be written.
    """
    _write(folder / "runs.csv", [_summary(run, threshold) for run in runs])
    evaluations = [
        {
            "run": run.name,
            "iteration": point.iteration,
            "env_steps": point.env_steps,
            "wall_s": point.wall_s,
            "episodes": point.evaluation.episodes,
            **_success(point.evaluation),
        }
        for run in runs
        for point in run.evaluations
    ]
    _write(folder / "evaluations.csv", evaluations)
    _write(folder / "iterations.csv", [row for run in runs for row in _iterations(run)])
    columns = ("setting", *(run.name for run in runs))
    _write(folder / "differences.csv", [dict(zip(columns, row, strict=True)) for row in differing])


def _summary(run: RunFacts, threshold: float) -> dict[str, Any]:
    data = run.data
    reached = first_reaching(threshold, run)
    last = run.evaluations[-1].evaluation if run.evaluations else None
    return {
        "run": run.name,
        "task": data.task,
        "runner": data.runner,
        "algorithm": data.algorithm,
        "status": data.status,
        "num_envs": data.num_envs,
        "iterations": data.completed_iterations,
        "env_steps": data.env_steps,
        "wall_s": data.wall_s,
        **_success(last),
        "episodes": None if last is None else last.episodes,
        f"env_steps_to_{threshold:g}": None if reached is None else reached.env_steps,
        f"wall_s_to_{threshold:g}": None if reached is None else reached.wall_s,
        **{f"{part}_fps": speed for part, speed in run.speeds.items()},
        "peak_bytes": data.peak_bytes,
        "restarts": len(data.restarts),
        **{f"guard_{cause}": count for cause, count in data.guard.items()},
    }


def _success(evaluation: Evaluation | None) -> dict[str, float | None]:
    success = None if evaluation is None else evaluation.success
    if success is None:
        return {"success": None, "success_lower": None, "success_upper": None}
    return {"success": success.rate, "success_lower": success.lower, "success_upper": success.upper}


def _iterations(run: RunFacts) -> Iterable[dict[str, Any]]:
    curves = run.curves
    if curves is None:
        return
    for index, iteration in enumerate(curves.iterations):
        values = {name: column[index] for name, column in curves.metrics.items()}
        yield {
            "run": run.name,
            "iteration": iteration,
            "env_steps": curves.env_steps[index],
            "wall_s": curves.wall_s[index],
            **{name: value for name, value in values.items() if math.isfinite(value)},
        }


def _write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows that need not have the same columns; what is missing is empty."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)
