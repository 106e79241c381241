# SPDX-License-Identifier: BSD-3-Clause
"""What the user sees of a search: how its trials stand; at its end a table, a CSV file, a picture and commands."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from isaaclab_pc.cluster.tuning import OVER, Trial, Tuning, best_trial, read_trials, write_csv
from isaaclab_pc.launch.run_folder import writing
from isaaclab_pc.program_name import command_line
from isaaclab_pc.terminal import events
from isaaclab_pc.terminal.screen import current
from isaaclab_pc.terminal.tables import table_console

__all__ = ["CSV_NAME", "PICTURE_NAME", "Watch", "report"]

CSV_NAME = "results.csv"
PICTURE_NAME = "results.png"

_ROWS = 30
"""Most trials in the table: the best, and those that run; the file has all."""


class Watch:
    """Shows how the trials stand, as the script's screen shows it."""

    def __init__(self, folder: Path, tuning: Tuning) -> None:
        """Begin.

        Args:
            folder: The tuning's folder.
            tuning: What is in it.
        """
        self._folder = folder
        self._tuning = tuning
        self._shown = {trial.name: trial.status for trial in read_trials(folder, tuning)}
        self._last: events.Trials | None = None

    def refresh(self) -> None:
        """Show what has changed."""
        trials = read_trials(self._folder, self._tuning)
        for trial in trials:
            if trial.status != self._shown[trial.name]:
                self._shown[trial.name] = trial.status
                current().show(_changed(self._tuning, trial))
        now = _standing(self._tuning, trials)
        if now != self._last:
            self._last = now
            current().show(now)


def report(folder: Path, tuning: Tuning) -> list[Trial]:
    """Write the results into the tuning's folder, and print them.

    Args:
        folder: The tuning's folder.
        tuning: What is in it.

    Returns:
        The trials.
    """
    trials = read_trials(folder, tuning)
    begun = [trial for trial in trials if trial.data is not None]
    if not begun:
        return trials

    with writing(folder):
        write_csv(folder / CSV_NAME, tuning, trials)
        _save_plot(folder / PICTURE_NAME, tuning, begun)
    screen = current()
    screen.say(_text(_table(tuning, trials)))
    screen.made("results", folder / CSV_NAME)
    screen.made("picture", folder / PICTURE_NAME)

    best = best_trial(trials)
    if best is not None:
        settings = [*tuning.fixed, *(f"{key}={value}" for key, value in best.values.items())]
        score = f"the best is {best.name}: {tuning.metric} {_score(best)}"
        screen.decide(score, **best.values)
        screen.say(f"train such a run: {command_line('train', *settings)}")
        screen.say(f"play it: {command_line('play', f'resume={folder / best.name}')}")
    return trials


def _save_plot(path: Path, tuning: Tuning, begun: Sequence[Trial]) -> None:
    from isaaclab_pc.viz.tuning_plot import TuningPoint, save_tuning_plot

    best = best_trial(begun)
    points = [
        TuningPoint(trial.values, "failed" if trial.status == "storm" else trial.status, trial.score, trial is best)
        for trial in begun
    ]
    task = "" if begun[0].data is None else begun[0].data.experiment
    save_tuning_plot(points, tuning.metric, f"{task}, {len(begun)} trials, {tuning.tuner}", path)


def _text(table: Table) -> str:
    """Return a table as lines, as wide as the terminal."""
    lines = io.StringIO()
    table_console(160, lines).print(table)
    return lines.getvalue().rstrip("\n")


def _table(tuning: Tuning, trials: Sequence[Trial]) -> Table:
    table = Table(title=f"Trials, the best first ({tuning.metric})", title_justify="left")
    table.add_column("trial")
    for key in tuning.searched:
        table.add_column(key.rpartition(".")[2], overflow="fold")
    for column in ("status", "iterations", tuning.metric, "time", "restarts"):
        table.add_column(column, justify="left" if column == "status" else "right")

    order = sorted(trials, key=_rank, reverse=True)
    runs_first = sorted(order, key=lambda trial: trial.status != "running") if len(order) > _ROWS else order
    for trial in runs_first[:_ROWS]:
        data = trial.data
        seconds, restarts = ("", "") if data is None else (f"{data.wall_s:.0f} s", str(len(data.restarts)))
        iterations = f"{trial.iterations}/{tuning.max_iterations}"
        table.add_row(trial.name, *trial.values.values(), trial.status, iterations, _score(trial), seconds, restarts)
    return table


def _changed(tuning: Tuning, trial: Trial) -> events.Trial:
    return events.Trial(
        trial=trial.name,
        status=trial.status,
        iteration=trial.iterations,
        values=dict(trial.values),
        metric=tuning.metric,
        score=_finite(trial.score),
        error=None if trial.data is None else trial.data.error,
    )


def _standing(tuning: Tuning, trials: Sequence[Trial]) -> events.Trials:
    best = best_trial(trials)
    return events.Trials(
        trials=len(trials),
        ended=sum(trial.status in OVER for trial in trials),
        failed=sum(trial.status in ("failed", "storm") for trial in trials),
        running={trial.name: trial.iterations for trial in trials if trial.status == "running"},
        max_iterations=tuning.max_iterations,
        best=None if best is None else best.name,
        metric=tuning.metric,
        score=None if best is None else _finite(best.score),
    )


def _finite(score: float | None) -> float | None:
    return score if score is not None and math.isfinite(score) else None


def _score(trial: Trial) -> str:
    return "" if trial.score is None else f"{trial.score:.4g}"


def _rank(trial: Trial) -> tuple[bool, float]:
    return trial.status == "completed", float("-inf") if trial.score is None else trial.score
