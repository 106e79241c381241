# SPDX-License-Identifier: BSD-3-Clause
"""The display of a tuning: how its trials stand; at its end a table, a CSV file and commands."""

import csv
import io
import math
from collections.abc import Callable, Sequence
from pathlib import Path

from isaaclab_pc.cluster.tuning import TuneTrial, Tuning, best_trial, read_trials
from isaaclab_pc.run.folder import writing
from isaaclab_pc.terminal.program_name import command_line
from isaaclab_pc.terminal.screen import current
from isaaclab_pc.terminal.tables import make_table, table_console

CSV_NAME = "results.csv"


def tuning_display(folder: Path, tuning: Tuning) -> Callable[[], None]:
    """Return what shows the trials with another status than before on the screen, and how far all of them are."""
    shown = {trial.name: trial.status for trial in read_trials(folder, tuning)}

    def refresh() -> None:
        trials = read_trials(folder, tuning)
        ended = sum(trial.is_over for trial in trials)
        for trial in trials:
            if trial.status != shown[trial.name]:
                shown[trial.name] = trial.status
                current().say(f"{_line(trial, tuning.metric)}  ({ended}/{len(trials)} ended)")

        most = tuning.max_iterations
        current().advance(sum(most if trial.is_over else trial.iterations for trial in trials), most * len(trials))

    return refresh


def _line(trial: TuneTrial, metric: str) -> str:
    values = " ".join(f"{key}={value}" for key, value in trial.values.items())
    score = "" if trial.score is None else f", {metric} {trial.score:.4g}"
    error = f": {trial.data.error}" if trial.data is not None and trial.data.error else ""
    return f"trial {trial.name} ({values}) {trial.status}, iteration {trial.iterations}{score}{error}"


def report(folder: Path, tuning: Tuning) -> list[TuneTrial]:
    """Write the results into the tuning's folder, and print them, the best first."""
    trials = read_trials(folder, tuning)
    if all(trial.data is None for trial in trials):
        return trials

    best = best_trial(trials)
    with writing(folder), (folder / CSV_NAME).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([_columns(tuning), *map(_row, trials)])

    screen = current()
    screen.say(_table(trials, tuning))
    screen.made("results", folder / CSV_NAME)
    if best is not None:
        settings = [*tuning.fixed, *(f"{key}={value}" for key, value in best.values.items())]
        screen.decide(f"the best is {best.name}: {tuning.metric} {best.score:.4g}", **best.values)
        screen.say(f"train such a run: {command_line('train', *settings)}")
        screen.say(f"play it: {command_line('play', f'resume={folder / best.name}')}")
    return trials


def _table(trials: Sequence[TuneTrial], tuning: Tuning) -> str:
    scores = {trial.name: -math.inf if trial.score is None else trial.score for trial in trials}
    order = sorted(trials, key=lambda trial: (trial.status == "completed", scores[trial.name]), reverse=True)
    columns = [column.rpartition(".")[2] for column in _columns(tuning)]
    title = f"Trials of {tuning.max_iterations} iterations, the best first"
    lines = io.StringIO()
    table_console(160, lines).print(make_table(title, columns, map(_row, order)))
    return lines.getvalue().rstrip("\n")


def _columns(tuning: Tuning) -> list[str]:
    settings = next(iter(tuning.trials.values()))
    costs = ("success", "seconds", "env_steps", "restarts")
    return ["trial", *settings, "status", "iterations", tuning.metric, *costs]


def _row(trial: TuneTrial) -> list[str]:
    row = [trial.name, *trial.values.values(), trial.status, str(trial.iterations), _text(trial.score)]
    if (data := trial.data) is None:
        return [*row, "", "", "", ""]
    return [*row, _text(data.success), f"{data.wall_s:.0f}", str(data.env_steps), str(len(data.restarts))]


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
