# SPDX-License-Identifier: BSD-3-Clause
"""The display of a tuning: how its trials stand; at its end a table, a CSV file, a picture and commands."""

import csv
import io
import math
from pathlib import Path

from isaaclab_pc.cluster.tuning import TuneTrial, Tuning, best_trial, read_trials
from isaaclab_pc.run.folder import writing
from isaaclab_pc.terminal import events
from isaaclab_pc.terminal.program_name import command_line
from isaaclab_pc.terminal.screen import current
from isaaclab_pc.terminal.tables import make_table, table_console

CSV_NAME = "results.csv"
PICTURE_NAME = "results.png"

_COSTS = ("success", "seconds", "env_steps", "restarts")

_ROWS = 30
"""Most trials in the table: those that run, then the best; the file has all."""


class TuningDisplay:
    """Shows how the trials stand on the script's screen."""

    def __init__(self, folder: Path, tuning: Tuning) -> None:
        """Begin."""
        self._folder = folder
        self._tuning = tuning
        self._shown = {trial.name: trial.status for trial in read_trials(folder, tuning)}
        self._last: events.TuneProgress | None = None

    def refresh(self) -> None:
        """Show the changes."""
        trials = read_trials(self._folder, self._tuning)
        for trial in trials:
            if trial.status != self._shown[trial.name]:
                self._shown[trial.name] = trial.status
                changed = events.TrialStatus(
                    trial=trial.name,
                    status=trial.status,
                    iteration=trial.iterations,
                    values=dict(trial.values),
                    metric=self._tuning.metric,
                    score=trial.score,
                    error=None if trial.data is None else trial.data.error,
                )
                current().show(changed)

        best = best_trial(trials)
        now = events.TuneProgress(
            trials=len(trials),
            ended=sum(trial.is_over for trial in trials),
            failed=sum(trial.status in ("failed", "storm") for trial in trials),
            running={trial.name: trial.iterations for trial in trials if trial.status == "running"},
            max_iterations=self._tuning.max_iterations,
            best=None if best is None else best.name,
            metric=self._tuning.metric,
            score=None if best is None else best.score,
        )
        if now != self._last:
            self._last = now
            current().show(now)


def report(folder: Path, tuning: Tuning) -> list[TuneTrial]:
    """Write the results into the tuning's folder, and print them."""
    trials = read_trials(folder, tuning)
    best = best_trial(trials)
    begun = [trial for trial in trials if trial.data is not None]
    if not begun:
        return trials

    screen = current()
    with writing(folder):
        with (folder / CSV_NAME).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([_columns(tuning), *map(_row, trials)])
        # Late: matplotlib takes a second to load.
        from isaaclab_pc.report.tuning_plot import save_tuning_plot

        task = next(trial.data.experiment for trial in begun if trial.data is not None)
        title = f"{task}, {len(begun)} trials, {tuning.tuner}"
        save_tuning_plot(begun, best, tuning.metric, title, folder / PICTURE_NAME)
    lines = io.StringIO()
    scores = {trial.name: -math.inf if trial.score is None else trial.score for trial in trials}
    order = sorted(trials, key=lambda trial: (trial.status == "completed", scores[trial.name]), reverse=True)
    if len(order) > _ROWS:
        order.sort(key=lambda trial: trial.status != "running")
    columns = [column.rpartition(".")[2] for column in _columns(tuning)]
    rows = [[*map(_cell, _row(trial))] for trial in order[:_ROWS]]
    title = f"Trials of {tuning.max_iterations} iterations, the best first"
    table_console(160, lines).print(make_table(title, columns, rows))
    screen.say(lines.getvalue().rstrip("\n"))
    screen.made("results", folder / CSV_NAME)
    screen.made("picture", folder / PICTURE_NAME)

    if best is not None:
        settings = [*tuning.fixed, *(f"{key}={value}" for key, value in best.values.items())]
        screen.decide(f"the best is {best.name}: {tuning.metric} {best.score:.4g}", **best.values)
        screen.say(f"train such a run: {command_line('train', *settings)}")
        screen.say(f"play it: {command_line('play', f'resume={folder / best.name}')}")
    return trials


def _columns(tuning: Tuning) -> list[str]:
    return ["trial", *tuning.searched, "status", "iterations", tuning.metric, *_COSTS]


def _row(trial: TuneTrial) -> list[str | float | None]:
    costs: list[float | None] = [None] * len(_COSTS)
    if (data := trial.data) is not None:
        costs = [data.success, round(data.wall_s, 1), data.env_steps, len(data.restarts)]
    return [trial.name, *trial.values.values(), trial.status, trial.iterations, trial.score, *costs]


def _cell(value: str | float | None) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
    return "" if value is None else str(value)
