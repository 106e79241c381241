# SPDX-License-Identifier: BSD-3-Clause
"""A search over settings on disk: what it tries, what was seen, and its results. Loads neither Ray nor torch."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.json_record import Count, JsonRecord, NonNegative, Size
from isaaclab_pc.launch.run_record import RECORD_NAME, RunData, RunRecord

__all__ = [
    "HISTORY_NAME",
    "OVER",
    "Trial",
    "Tuning",
    "best_trial",
    "is_over",
    "read_history",
    "read_trials",
    "score_of",
    "write_csv",
]

TUNING_NAME = "tuning.json"
"""File with the settings of the search, in its folder."""

HISTORY_NAME = "history.jsonl"
"""File with the reports of the trials, in its folder, one line each."""

OVER = ("completed", "stopped early", "failed", "storm")
"""Statuses of trials that do not go on; all but the second are what a run's record says."""


@dataclass(frozen=True)
class Tuning(JsonRecord):
    """A search: all of its trials are drawn before the first one starts."""

    tuner: Literal["asha", "random"]
    """Who ends trials before their time."""
    metric: str
    """Metric to maximize."""
    max_iterations: Size
    """Iterations of a trial."""
    grace_iterations: Size
    """Iterations before ``asha`` may end a trial."""
    fixed: tuple[str, ...]
    """``key=value`` of the settings that all trials share."""
    trials: Mapping[str, Mapping[str, str]]
    """Values of the settings that are searched over, by the name of the trial's folder."""
    max_failures: Count
    """Times that Ray starts a trial again whose processes were lost."""
    cpus: NonNegative
    """CPU cores of a trial."""
    gpus: NonNegative
    """GPUs of a trial."""
    memory: Count
    """Host memory of a trial [bytes]."""

    @property
    def searched(self) -> tuple[str, ...]:
        """Dotted names of the settings that are searched over."""
        return tuple(next(iter(self.trials.values())))

    @classmethod
    def load(cls, folder: Path) -> Tuning:
        """Read the search of a folder.

        Raises:
            ConfigError: There is none, or it cannot be read.
        """
        try:
            tuning = cls.read(folder / TUNING_NAME)
        except OSError:
            raise ConfigError(f"resume={folder} is not the folder of a tuning: it has no {TUNING_NAME}.") from None
        except ValueError as error:
            raise ConfigError(f"{folder / TUNING_NAME} is not a tuning: {error}.") from None
        if not tuning.trials or any(Path(name).name != name or name.startswith(".") for name in tuning.trials):
            raise ConfigError(f"{folder / TUNING_NAME} is not a tuning: its trials are not folders in it.")
        return tuning

    def save(self, folder: Path) -> None:
        """Write it into its folder."""
        self.write(folder / TUNING_NAME)


@dataclass
class History:
    """Reports of a trial so far."""

    scores: list[tuple[int, float]] = field(default_factory=list)
    """Iterations and scores."""
    is_over: bool = False
    """Whether it ended, or the tuner ended it."""


@dataclass(frozen=True)
class Trial:
    """One line of the results."""

    name: str
    """Its folder's name."""
    values: Mapping[str, str]
    """Of the settings that are searched over."""
    status: str = "waiting"
    """``waiting``, ``stopped early``, or what the run's record says."""
    score: float | None = None
    """Newest value of the metric."""
    data: RunData | None = None
    """The run's record; None before it has begun."""

    @property
    def iterations(self) -> int:
        """Iterations completed."""
        return 0 if self.data is None else self.data.completed_iterations


def score_of(data: RunData, metric: str) -> float | None:
    """Return the newest value of a metric.

    The evaluation at the end counts more than the successes in training. While a policy is distilled its teacher acts,
    too, so only evaluations count.

    Args:
        data: The run's record.
        metric: ``success_rate``, or another metric of an iteration.
    """
    if metric == "success_rate" and data.success is not None:
        return data.success
    if metric == "success_rate" and data.algorithm == "distill":
        return data.evaluations[-1].evaluation.success_rate if data.evaluations else None
    return data.metrics.get(metric)


def is_over(data: RunData | None) -> bool:
    """Tell whether a run has ended, and does not go on by itself."""
    return data is not None and data.status in OVER


def read_history(folder: Path) -> dict[str, History]:
    """Read what the trials of a tuning have reported, by the names of their folders.

    Args:
        folder: The tuning's folder.
    """
    path = folder / HISTORY_NAME
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    trials: dict[str, History] = {}
    for line in lines:
        try:
            entry = json.loads(line)
            history = trials.setdefault(str(entry["trial"]), History())
            if entry.get("over") is True:
                history.is_over = True
            else:
                history.scores.append((int(entry["iteration"]), float(entry["score"])))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            # The last line of a script that was killed, or of a full disk.
            continue
    return trials


def read_trials(folder: Path, tuning: Tuning) -> list[Trial]:
    """Read how the trials of a tuning stand.

    Args:
        folder: The tuning's folder.
        tuning: What is in it.
    """
    history = read_history(folder)
    trials = []
    for name, values in tuning.trials.items():
        if not (folder / name / RECORD_NAME).exists():
            trials.append(Trial(name, values))
            continue
        data = RunRecord.load(folder / name).data
        over = name in history and history[name].is_over
        status = "stopped early" if over and not is_over(data) else data.status
        trials.append(Trial(name, values, status, score_of(data, tuning.metric), data))
    return trials


def best_trial(trials: Sequence[Trial]) -> Trial | None:
    """Return the best trial; one that came to its end is better than those that were ended before."""
    done = [trial for trial in trials if trial.status in ("completed", "stopped early") and trial.score is not None]
    return max(done, key=lambda trial: (trial.status == "completed", trial.score), default=None)


def write_csv(path: Path, tuning: Tuning, trials: Sequence[Trial]) -> None:
    """Write one line for each trial.

    Args:
        path: The file.
        tuning: What the trials belong to.
        trials: The trials.
    """
    columns = ("status", "iterations", tuning.metric, "success", "seconds", "env_steps", "restarts")
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["trial", *tuning.searched, *columns])
        for trial in trials:
            data = trial.data
            known = ("", "", "", "")
            if data is not None:
                known = (data.success, round(data.wall_s, 1), data.env_steps, len(data.restarts))
            row = [trial.name, *trial.values.values(), trial.status, trial.iterations, trial.score, *known]
            writer.writerow(["" if cell is None else cell for cell in row])
