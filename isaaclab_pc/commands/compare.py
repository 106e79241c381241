# SPDX-License-Identifier: BSD-3-Clause
"""``scripts/compare.py``: several runs in one table, one picture and CSV files. Loads no torch."""

import csv
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from rich.table import Table

from isaaclab_pc.cli.command_line import Takes, parse_script_command
from isaaclab_pc.cli.help import settings_table
from isaaclab_pc.cli.script import script
from isaaclab_pc.commands.named_run import named_run, split_folders
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.processes.child_process import ExitCode
from isaaclab_pc.report.read_run import RunFacts, read_runs
from isaaclab_pc.report.run_tables import differences, measures
from isaaclab_pc.report.words import NOTHING, duration, number
from isaaclab_pc.run.evaluation import Evaluation
from isaaclab_pc.run.folder import LOGS, make_folder, writing
from isaaclab_pc.run.record import RECORD_NAME, CurvePoint
from isaaclab_pc.settings.base import ScriptSettings
from isaaclab_pc.terminal.screen import current
from isaaclab_pc.terminal.tables import make_table, table_console


class CompareSettings(ScriptSettings):
    """Settings of a comparison."""

    threshold: Annotated[float, Field(gt=0.0, le=1.0)] = 0.9
    """Success rate for which the table shows the environment steps and the time that a run took to it."""

    out: str | None = None
    """Folder for the files; null: logs/compare/<time>."""


TAKES = Takes(CompareSettings)

_RESULT = ("Run", "Library", "Status", "Success", "Episodes", "Iterations", "Environment steps", "Time")
_COST = ("Run", "Environments", "env", "inference", "total", "Peak memory", "Ended by the guard", "Restarts")
_COST_TITLE = "Speed in environment steps per second, memory, health"
_TEXTS = {"Run", "Library", "Status", "Success"}
"""Columns of the two tables that hold no numbers."""

HELP = f"""\
Compare runs, of any learning libraries: success with its 95 % interval, steps and time to a success rate, steps per
second, memory, what the guard ended, and the settings in which they differ.

  python scripts/compare.py <run> <run> ... [key=value ...]

A run is named by its folder. The table is printed; the curves (curves.png) and all numbers (runs.csv, evaluations.csv,
iterations.csv, differences.csv) are written to a folder. A run that still trains counts as it is now.

Examples
  python scripts/compare.py logs/*/reach/*                       all runs of reach, of all libraries
  python scripts/compare.py logs/rsl_rl/lift/* threshold=0.95    which was first at 95 %?

{settings_table(lambda key: False, CompareSettings)}

Steps and time to a success rate are those of the first evaluation that reached it, so they are as coarse as the
evaluations in training are (eval.best_share). Steps per second are medians over the iterations: of the environment
alone (env), with the policy's inference (inference), and with the update, too (total).

Exit codes: 0; 2 for a folder without a run or a wrong setting; 128 + N after a signal N; 1 otherwise.
"""


@script(HELP)
def main(argv: Sequence[str]) -> int:
    """Compare the runs that a command line names; return the exit code, as in :data:`HELP`."""
    folders, others = split_folders(argv, TAKES.names)
    own, _ = parse_script_command(others, CompareSettings, ())
    if not folders:
        raise ConfigError("no run was named: python scripts/compare.py <run> <run> ...")
    runs = read_runs(_runs(folders))
    for run in runs:
        for problem in run.problems:
            current().warn(f"{run.name}: {problem}")
    differing = differences(runs)

    # Late: matplotlib takes a second to load.
    from isaaclab_pc.report.figures import save_comparison_plot

    out = make_folder(LOGS / "compare") if own.out is None else Path(own.out)
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        columns = ("setting", *(run.name for run in runs))
        _write(out / "runs.csv", [_summary(run, own.threshold) for run in runs])
        _write(out / "evaluations.csv", [row for run in runs for row in _evaluations(run)])
        _write(out / "iterations.csv", [row for run in runs for row in _iterations(run)])
        _write(out / "differences.csv", [dict(zip(columns, row, strict=True)) for row in differing])
        save_comparison_plot(runs, own.threshold, out / "curves.png")

    console = table_console(160)
    for table in _tables(runs, own.threshold):
        console.print(table)
    if differing:
        console.print(make_table("What differs", ("", *(run.name for run in runs)), differing))
    current().made("comparison", out, "curves and numbers")
    return ExitCode.OK


def _runs(folders: Sequence[str]) -> list[Path]:
    """Return the folders of the runs that were named, each once; say which folders hold none."""
    # A pattern such as logs/*/lift/* also means the results of other scripts; where they are all, they are refused.
    others = [text for text in folders if os.path.isdir(text) and not os.path.isfile(os.path.join(text, RECORD_NAME))]
    runs = [text for text in folders if text not in others] or folders
    for text in folders:
        if text not in runs:
            current().warn(f"{text} is not a run's folder: passing over it")

    found = {folder.resolve(): folder for folder in map(named_run, runs)}
    return list(found.values())


def _first_reaching(threshold: float, run: RunFacts) -> CurvePoint | None:
    """Return a run's first evaluation with a success rate of at least a threshold; None where there is none."""
    rated = ((point, point.evaluation.success_rate) for point in run.evaluations)
    return next((point for point, rate in rated if rate is not None and rate >= threshold), None)


def _tables(runs: Sequence[RunFacts], threshold: float) -> list[Table]:
    """Return success, and cost with health, one row a run."""
    to_threshold = (f"Steps to {100 * threshold:g} %", f"Time to {100 * threshold:g} %")
    texts = []
    for run in runs:
        reached = _first_reaching(threshold, run)
        spent = (NOTHING, NOTHING) if reached is None else (number(reached.env_steps), duration(reached.wall_s))
        speeds = {part: number(speed) for part, speed in run.speeds.items()}
        texts.append({"Run": run.name, **measures(run), **speeds, **dict(zip(to_threshold, spent, strict=True))})

    tables = []
    for title, columns in {"Success": (*_RESULT, *to_threshold), _COST_TITLE: _COST}.items():
        rows = [[text[column] for column in columns] for text in texts]
        tables.append(make_table(title, columns, rows, set(columns) - _TEXTS))
    return tables


def _summary(run: RunFacts, threshold: float) -> dict[str, Any]:
    data = run.data
    reached = _first_reaching(threshold, run)
    last = run.last_evaluation
    return {
        "run": run.name,
        **data.model_dump(include={"task", "runner", "algorithm", "status", "num_envs"}),
        "iterations": data.completed_iterations,
        "env_steps": data.env_steps,
        "wall_s": data.wall_s,
        **_interval(last),
        "episodes": None if last is None else last.episodes,
        f"env_steps_to_{threshold:g}": None if reached is None else reached.env_steps,
        f"wall_s_to_{threshold:g}": None if reached is None else reached.wall_s,
        **{f"{part}_fps": speed for part, speed in run.speeds.items()},
        "peak_bytes": data.peak_bytes,
        "restarts": len(data.restarts),
        **{f"guard_{cause}": count for cause, count in data.guard.items()},
    }


def _evaluations(run: RunFacts) -> Iterable[dict[str, Any]]:
    for point in run.evaluations:
        progress = point.model_dump(include={"iteration", "env_steps", "wall_s"})
        yield {"run": run.name, **progress, "episodes": point.evaluation.episodes, **_interval(point.evaluation)}


def _interval(evaluation: Evaluation | None) -> dict[str, float | None]:
    success = None if evaluation is None else evaluation.success
    if success is None:
        return {"success": None, "success_lower": None, "success_upper": None}
    return {"success": success.rate, "success_lower": success.lower, "success_upper": success.upper}


def _iterations(run: RunFacts) -> Iterable[dict[str, Any]]:
    for entry in run.iterations:
        progress = {"iteration": entry.iteration, "env_steps": entry.env_steps, "wall_s": entry.wall_s}
        yield {"run": run.name, **progress, **entry.metrics}


def _write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows that need not have the same columns; missing values are empty."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)
