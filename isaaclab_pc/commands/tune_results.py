# SPDX-License-Identifier: BSD-3-Clause
"""What the user sees of a search: a table while it runs; table, CSV file, picture and commands at its end."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table

from isaaclab_pc.cluster.tuning import Trial, Tuning, best_trial, read_trials, write_csv
from isaaclab_pc.launch.run_folder import writing

__all__ = ["CSV_NAME", "PICTURE_NAME", "Watch", "report"]

CSV_NAME = "results.csv"
PICTURE_NAME = "results.png"

_ROWS = 30
"""Most trials in the table: the best, and those that run; the file has all."""


class Watch:
    """Shows how the trials stand: a table on a terminal, a line for each change elsewhere. A context manager."""

    def __init__(self, folder: Path, tuning: Tuning) -> None:
        """Begin.

        Args:
            folder: The tuning's folder.
            tuning: What is in it.
        """
        self._folder = folder
        self._tuning = tuning
        self._live = Live(console=Console(), auto_refresh=False, transient=True) if sys.stdout.isatty() else None
        self._shown = {trial.name: trial.status for trial in read_trials(folder, tuning)}

    def __enter__(self) -> Watch:
        """Take the terminal."""
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Give the terminal back."""
        self.refresh()
        if self._live is not None:
            self._live.stop()

    def refresh(self) -> None:
        """Show how the trials stand now."""
        trials = read_trials(self._folder, self._tuning)
        if self._live is not None:
            self._live.update(_table(self._tuning, trials), refresh=True)
            return
        for trial in trials:
            if trial.status != self._shown[trial.name]:
                self._shown[trial.name] = trial.status
                print(_line(self._tuning, trial), flush=True)


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
    Console(width=None if sys.stdout.isatty() else 160).print(_table(tuning, trials))
    print(f"results: {folder / CSV_NAME}, {folder / PICTURE_NAME}")

    best = best_trial(trials)
    if best is not None:
        settings = [*tuning.fixed, *(f"{key}={value}" for key, value in best.values.items())]
        print(f"the best is {best.name}: {tuning.metric} {_score(best)}")
        print(f"train such a run: {shlex.join(['python', 'scripts/train.py', *settings])}")
        print(f"play it: {shlex.join(['python', 'scripts/play.py', f'resume={folder / best.name}'])}")
    sys.stdout.flush()
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


def _line(tuning: Tuning, trial: Trial) -> str:
    values = " ".join(f"{key}={value}" for key, value in trial.values.items())
    score = "" if trial.score is None else f", {tuning.metric} {_score(trial)}"
    error = "" if trial.data is None or trial.data.error is None else f": {trial.data.error}"
    return f"trial {trial.name} ({values}) {trial.status}, iteration {trial.iterations}{score}{error}"


def _score(trial: Trial) -> str:
    return "" if trial.score is None else f"{trial.score:.4g}"


def _rank(trial: Trial) -> tuple[bool, float]:
    return trial.status == "completed", float("-inf") if trial.score is None else trial.score
