# SPDX-License-Identifier: BSD-3-Clause
"""The display of a tuning: how its trials stand; at its end a table, a CSV file, a picture and commands."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from isaaclab_pc.cluster.tuning import TuneTrial, Tuning, best_trial, read_trials
from isaaclab_pc.run.folder import writing
from isaaclab_pc.terminal import events
from isaaclab_pc.terminal.program_name import command_line
from isaaclab_pc.terminal.screen import current
from isaaclab_pc.terminal.tables import table_console

__all__ = ["TuningDisplay", "report"]

CSV_NAME = "results.csv"
PICTURE_NAME = "results.png"

_ROWS = 30
"""Most trials in the table: the best, and those that run; the file has all."""


class TuningDisplay:
    """Shows how the trials stand on the script's screen."""

    def __init__(self, folder: Path, tuning: Tuning) -> None:
        """Begin."""
        self._folder = folder
        self._tuning = tuning
        self._shown = {trial.name: trial.status for trial in read_trials(folder, tuning)}
        self._last: events.Trials | None = None

    def refresh(self) -> None:
        """Show the changes."""
        trials = read_trials(self._folder, self._tuning)
        for trial in trials:
            if trial.status != self._shown[trial.name]:
                self._shown[trial.name] = trial.status
                current().show(_changed(self._tuning, trial))
        now = _standing(self._tuning, trials)
        if now != self._last:
            self._last = now
            current().show(now)


def _changed(tuning: Tuning, trial: TuneTrial) -> events.Trial:
    return events.Trial(
        trial=trial.name,
        status=trial.status,
        iteration=trial.iterations,
        values=dict(trial.values),
        metric=tuning.metric,
        score=_finite(trial),
        error=None if trial.data is None else trial.data.error,
    )


def _standing(tuning: Tuning, trials: Sequence[TuneTrial]) -> events.Trials:
    best = best_trial(trials)
    return events.Trials(
        trials=len(trials),
        ended=sum(trial.is_over for trial in trials),
        failed=sum(trial.status in ("failed", "storm") for trial in trials),
        running={trial.name: trial.iterations for trial in trials if trial.status == "running"},
        max_iterations=tuning.max_iterations,
        best=None if best is None else best.name,
        metric=tuning.metric,
        score=None if best is None else _finite(best),
    )


def _finite(trial: TuneTrial) -> float | None:
    return trial.score if trial.score is not None and math.isfinite(trial.score) else None


def report(folder: Path, tuning: Tuning) -> list[TuneTrial]:
    """Write the results into the tuning's folder, and print them."""
    trials = read_trials(folder, tuning)
    begun = [trial for trial in trials if trial.data is not None]
    if not begun:
        return trials

    screen = current()
    with writing(folder):
        _write_csv(folder / CSV_NAME, tuning, trials)
        _save_plot(folder / PICTURE_NAME, tuning, begun)
    lines = io.StringIO()
    table_console(160, lines).print(_table(tuning, trials))
    screen.say(lines.getvalue().rstrip("\n"))
    screen.made("results", folder / CSV_NAME)
    screen.made("picture", folder / PICTURE_NAME)

    best = best_trial(trials)
    if best is not None:
        settings = [*tuning.fixed, *(f"{key}={value}" for key, value in best.values.items())]
        screen.decide(f"the best is {best.name}: {tuning.metric} {best.score:.4g}", **best.values)
        screen.say(f"train such a run: {command_line('train', *settings)}")
        screen.say(f"play it: {command_line('play', f'resume={folder / best.name}')}")
    return trials


def _write_csv(path: Path, tuning: Tuning, trials: Sequence[TuneTrial]) -> None:
    columns = ("status", "iterations", tuning.metric, "success", "seconds", "env_steps", "restarts")
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["trial", *tuning.searched, *columns])
        for trial in trials:
            known = [None] * 4
            if (data := trial.data) is not None:
                known = [data.success, round(data.wall_s, 1), data.env_steps, len(data.restarts)]
            writer.writerow([trial.name, *trial.values.values(), trial.status, trial.iterations, trial.score, *known])


def _table(tuning: Tuning, trials: Sequence[TuneTrial]) -> Table:
    table = Table(title=f"Trials, the best first ({tuning.metric})", title_justify="left")
    table.add_column("trial")
    for key in tuning.searched:
        table.add_column(key.rpartition(".")[2], overflow="fold")
    for column in ("status", "iterations", tuning.metric, "time", "restarts"):
        table.add_column(column, justify="left" if column == "status" else "right")

    order = sorted(trials, key=_rank, reverse=True)
    if len(order) > _ROWS:
        order.sort(key=lambda trial: trial.status != "running")
    for trial in order[:_ROWS]:
        score = "" if trial.score is None else f"{trial.score:.4g}"
        row = [trial.name, *trial.values.values(), trial.status, f"{trial.iterations}/{tuning.max_iterations}", score]
        if (data := trial.data) is not None:
            row += [f"{data.wall_s:.0f} s", str(len(data.restarts))]
        table.add_row(*row)
    return table


def _rank(trial: TuneTrial) -> tuple[bool, float]:
    return trial.status == "completed", -math.inf if trial.score is None else trial.score


def _save_plot(path: Path, tuning: Tuning, begun: Sequence[TuneTrial]) -> None:
    from isaaclab_pc.report.tuning_plot import TuningPoint, save_tuning_plot

    best = best_trial(begun)
    points = [
        TuningPoint(trial.values, "failed" if trial.status == "storm" else trial.status, trial.score, trial is best)
        for trial in begun
    ]
    task = "" if begun[0].data is None else begun[0].data.experiment
    save_tuning_plot(points, tuning.metric, f"{task}, {len(begun)} trials, {tuning.tuner}", path)
