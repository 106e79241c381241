# SPDX-License-Identifier: BSD-3-Clause
"""What ``scripts/compare.py`` tells of each run, whatever its learning library: numbers and files."""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isaaclab_pc.launch.evaluation_result import Evaluation
from isaaclab_pc.launch.run_folder import SETTINGS_NAME
from isaaclab_pc.launch.run_record import CurvePoint, RunData, RunRecord
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.viz.run_curves import RunCurves, read_run_curves

__all__ = ["ComparedRun", "Speed", "read_run", "write_csv_files"]


@dataclass(frozen=True)
class Speed:
    """Environment steps per second, each the median over the iterations but the first; None where it is not known."""

    env: float | None
    """Of the environment's part of the rollouts."""

    inference: float | None
    """Of the rollouts, the policy's inference included."""

    total: float | None
    """Of rollouts and updates."""


@dataclass(frozen=True)
class ComparedRun:
    """One run."""

    name: str
    """As much of its folder's path as tells it from the others."""

    data: RunData
    """Its record."""

    settings: RunSettings
    """Its settings."""

    curves: RunCurves
    """Its metrics over the iterations."""

    @property
    def evaluation(self) -> Evaluation | None:
        """The evaluation at its end; the newest one of its checkpoints where it has not ended."""
        if self.data.evaluation is not None:
            return self.data.evaluation
        return self.data.evaluations[-1].evaluation if self.data.evaluations else None

    @property
    def evaluations(self) -> list[CurvePoint]:
        """All evaluations in the order of the training, that at the end included."""
        if self.data.evaluation is None:
            return self.data.evaluations
        data = self.data
        last = CurvePoint(
            iteration=data.completed_iterations,
            env_steps=data.env_steps,
            wall_s=data.wall_s,
            evaluation_s=0.0,
            evaluation=self.data.evaluation,
        )
        return [*data.evaluations, last]

    def reached(self, threshold: float) -> CurvePoint | None:
        """Return the first evaluation with a success rate of at least a threshold; None where there is none."""
        rated = ((point, point.evaluation.success_rate) for point in self.evaluations)
        return next((point for point, rate in rated if rate is not None and rate >= threshold), None)

    @property
    def speed(self) -> Speed:
        """How fast it was."""
        return Speed(*(self._median(f"Perf/{part}_fps") for part in ("env", "inference", "total")))

    def _median(self, metric: str) -> float | None:
        """Return a metric's median; the first iteration also compiles kernels and does not count."""
        values = [value for value in self.curves.metrics.get(metric, [])[1:] if math.isfinite(value)]
        return statistics.median(values) if values else None

    @property
    def guarded(self) -> int:
        """Episodes that the guard ended."""
        return sum(self.data.guard.values())


def read_run(folder: Path, name: str) -> ComparedRun:
    """Read a run from its folder.

    Args:
        folder: The run's folder.
        name: What to call it.

    Returns:
        The run.

    Raises:
        ConfigError: The run cannot be read.
    """
    record = RunRecord.load(folder)
    return ComparedRun(name, record.data, RunSettings.load(folder / SETTINGS_NAME), read_run_curves(folder))


def write_csv_files(
    folder: Path, runs: Sequence[ComparedRun], threshold: float, differing: Sequence[tuple[str, ...]]
) -> None:
    """Write ``runs.csv``, ``evaluations.csv``, ``iterations.csv`` and ``differences.csv``.

    Args:
        folder: Where to.
        runs: The runs.
        threshold: Success rate whose steps and time stand in ``runs.csv``.
        differing: What is not the same in all runs, with its value in every run.
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


def _summary(run: ComparedRun, threshold: float) -> dict[str, Any]:
    reached = run.reached(threshold)
    return {
        "run": run.name,
        "task": run.data.task,
        "runner": run.data.runner,
        "algorithm": run.data.algorithm,
        "status": run.data.status,
        "num_envs": run.data.num_envs,
        "iterations": run.data.completed_iterations,
        "env_steps": run.data.env_steps,
        "wall_s": run.data.wall_s,
        **_success(run.evaluation),
        "episodes": None if run.evaluation is None else run.evaluation.episodes,
        f"env_steps_to_{threshold:g}": None if reached is None else reached.env_steps,
        f"wall_s_to_{threshold:g}": None if reached is None else reached.wall_s,
        **{f"{name}_fps": value for name, value in vars(run.speed).items()},
        "peak_bytes": run.data.peak_bytes,
        "restarts": len(run.data.restarts),
        **{f"guard_{cause}": count for cause, count in run.data.guard.items()},
    }


def _success(evaluation: Evaluation | None) -> dict[str, float | None]:
    success = None if evaluation is None else evaluation.success
    if success is None:
        return {"success": None, "success_lower": None, "success_upper": None}
    return {"success": success.rate, "success_lower": success.lower, "success_upper": success.upper}


def _iterations(run: ComparedRun) -> Iterable[dict[str, Any]]:
    curves = run.curves
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
