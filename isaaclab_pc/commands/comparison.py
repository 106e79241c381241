# SPDX-License-Identifier: BSD-3-Clause
"""Numbers of several runs, which ``scripts/report.py`` prints as tables and writes as a CSV file. Loads no torch."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from isaaclab_pc.report.read_run import RunFacts
from isaaclab_pc.report.run_tables import differences, measures
from isaaclab_pc.report.words import NOTHING, duration, number
from isaaclab_pc.run.record import CurvePoint
from isaaclab_pc.terminal.tables import make_table, table_console

_RESULT = ("Run", "Library", "Status", "Success", "Episodes", "Iterations", "Environment steps", "Time")
_COST = ("Run", "Environments", "env", "inference", "total", "Peak memory", "Ended by the guard", "Restarts")
_COST_TITLE = "Speed in environment steps per second, memory, health"
_TEXTS = {"Run", "Library", "Status", "Success"}
"""Columns of the two tables that hold no numbers."""


def write_numbers(runs: Sequence[RunFacts], threshold: float, folder: Path) -> None:
    """Write ``runs.csv`` to a folder; ``threshold`` is the success rate for which steps and time to it are told."""
    rows = [_summary(run, threshold) for run in runs]
    # Not all have the same columns; missing values are empty.
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with (folder / "runs.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)


def print_tables(runs: Sequence[RunFacts], threshold: float) -> None:
    """Print success, cost with health, and what differs."""
    to_threshold = (f"Steps to {100 * threshold:g} %", f"Time to {100 * threshold:g} %")
    texts = []
    for run in runs:
        reached = _first_reaching(threshold, run)
        spent = (NOTHING, NOTHING) if reached is None else (number(reached.env_steps), duration(reached.wall_s))
        speeds = {part: number(speed) for part, speed in run.speeds.items()}
        texts.append({"Run": run.name, **measures(run), **speeds, **dict(zip(to_threshold, spent, strict=True))})

    console = table_console(160)
    for title, columns in {"Success": (*_RESULT, *to_threshold), _COST_TITLE: _COST}.items():
        rows = [[text[column] for column in columns] for text in texts]
        console.print(make_table(title, columns, rows, set(columns) - _TEXTS))
    if differing := differences(runs):
        console.print(make_table("What differs", ("", *(run.name for run in runs)), differing))


def _first_reaching(threshold: float, run: RunFacts) -> CurvePoint | None:
    """Return a run's first evaluation with a success rate of at least a threshold; None where there is none."""
    rated = ((point, point.evaluation.success_rate) for point in run.evaluations)
    return next((point for point, rate in rated if rate is not None and rate >= threshold), None)


def _summary(run: RunFacts, threshold: float) -> dict[str, Any]:
    data = run.data
    reached = _first_reaching(threshold, run)
    last = run.last_evaluation
    success = None if last is None else last.success
    return {
        "run": run.name,
        **data.model_dump(include={"task", "runner", "algorithm", "status", "num_envs"}),
        "iterations": data.completed_iterations,
        "env_steps": data.env_steps,
        "wall_s": data.wall_s,
        "success": None if success is None else success.rate,
        "success_lower": None if success is None else success.lower,
        "success_upper": None if success is None else success.upper,
        "episodes": None if last is None else last.episodes,
        f"env_steps_to_{threshold:g}": None if reached is None else reached.env_steps,
        f"wall_s_to_{threshold:g}": None if reached is None else reached.wall_s,
        **{f"{part}_fps": speed for part, speed in run.speeds.items()},
        "peak_bytes": data.peak_bytes,
        "restarts": len(data.restarts),
        **{f"guard_{cause}": count for cause, count in data.guard.items()},
    }
