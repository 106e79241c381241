# SPDX-License-Identifier: BSD-3-Clause
"""A tuning on disk: its trials, their share of the machine, how they stand, and which is the best.

Loads neither Ray nor torch.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.num_envs.fit import DEVICE_FRACTION, HOST_FRACTION
from isaaclab_pc.num_envs.memory import usable_cores
from isaaclab_pc.run.iteration_log import read_iterations
from isaaclab_pc.run.platform import gpu_count
from isaaclab_pc.run.record import RECORD_NAME, RunData, RunRecord
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.settings.scaling import parse_budget
from isaaclab_pc.utils.json_record import Count, JsonRecord, NonNegative, Size

TUNING_NAME = "tuning.json"
"""The tuning's file in its folder."""

STOPPED_EARLY_NAME = "stopped_early"
"""Empty file in the folder of a trial that the tuner ended before its last iteration."""

_OVER = ("completed", "stopped early", "failed", "storm")
"""Statuses of trials that do not go on; all but the second are also statuses of a run."""


@dataclass(frozen=True)
class TrialShare(JsonRecord):
    """The share of one trial."""

    concurrent: Size
    """Trials at once."""
    cpus: Size
    """CPU cores."""
    gpus: NonNegative
    """GPUs: a fraction where trials share one."""
    sharing: Size
    """Trials that share its memory: that of a GPU, or of the host."""


@dataclass(frozen=True)
class Tuning(JsonRecord):
    """A search over settings: all of its trials are drawn before the first one starts."""

    tuner: Literal["asha", "random"]
    """``asha`` ends trials before their time, ``random`` does not."""
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
    """Times that Ray starts a trial again after its processes were lost."""
    share: TrialShare
    """Cores and GPUs of a trial."""

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read the tuning of a folder.

        Raises:
            ConfigError: There is none, or it cannot be read.
        """
        try:
            tuning = cls.read(folder / TUNING_NAME)
            if not tuning.trials or any(Path(name).name != name or name.startswith(".") for name in tuning.trials):
                raise ValueError("its trials are not folders in it")
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"resume={folder} is not the folder of a tuning: {folder / TUNING_NAME} cannot be read ({error})."
            ) from None
        return tuning


@dataclass(frozen=True)
class TuneTrial:
    """How one trial stands."""

    name: str
    """Its folder's name."""
    values: Mapping[str, str]
    """Values of the settings that are searched over."""
    status: str
    """``waiting``, ``stopped early``, or the status of the run."""
    score: float | None = None
    """Newest value of the metric: that of the last evaluation where there is one."""
    data: RunData | None = None
    """The run's record; None before it has begun."""

    @property
    def is_over(self) -> bool:
        """Whether it has ended, and does not go on."""
        return self.status in _OVER

    @property
    def iterations(self) -> int:
        """Iterations completed."""
        return 0 if self.data is None else self.data.completed_iterations


def divide_machine(settings: RunSettings, trials: int, concurrent: int | None) -> TrialShare:
    """Divide this machine among trials; ``concurrent``: how many at once (None: one on each GPU, or one on the CPU)."""
    gpus = 0 if settings.device == "cpu" else gpu_count()
    at_once = min(concurrent or max(gpus, 1), trials)
    cpus = max(usable_cores() // at_once, 1)
    if not gpus:
        return TrialShare(at_once, cpus, 0.0, at_once)
    sharing = math.ceil(at_once / gpus)
    # Rounded down to Ray's resolution: six times 0.1667 of a GPU would be more than one.
    return TrialShare(at_once, cpus, math.floor(10_000 / sharing) / 10_000, sharing)


def divided_budget(settings: RunSettings, sharing: int) -> float | str | None:
    """Return the value of ``scaling.budget`` for one of several trials that share the memory."""
    budget = settings.scaling.budget
    if sharing == 1:
        return budget
    whole = parse_budget(budget or (HOST_FRACTION if settings.device == "cpu" else DEVICE_FRACTION))
    # A fraction stays one: the answer of a search is remembered by it.
    return whole / sharing if isinstance(whole, float) else str(whole // sharing)


def read_trials(folder: Path, tuning: Tuning) -> list[TuneTrial]:
    """Read how the trials of a tuning stand."""
    return [read_trial(folder / name, tuning.metric, values) for name, values in tuning.trials.items()]


def read_trial(folder: Path, metric: str, values: Mapping[str, str] | None = None) -> TuneTrial:
    """Read how the trial of a folder stands."""
    if not (folder / RECORD_NAME).exists():
        return TuneTrial(folder.name, values or {}, "waiting")
    data = RunRecord.load(folder).data
    stopped_early = data.status not in _OVER and (folder / STOPPED_EARLY_NAME).exists()
    status = "stopped early" if stopped_early else data.status
    return TuneTrial(folder.name, values or {}, status, _score(data, metric), data)


def read_scores(folder: Path, metric: str) -> list[tuple[int, float | None]]:
    """Read the completed iterations of a trial's training, each with the newest value of the metric."""
    data = RunRecord.load(folder).data if (folder / RECORD_NAME).exists() else None
    if data is not None and _teacher_acts(data, metric):
        return [(point.iteration, point.evaluation.success_rate) for point in data.evaluations]
    return [(entry.iteration, entry.metrics.get(metric)) for entry in read_iterations(folder)]


def _score(data: RunData, metric: str) -> float | None:
    if metric == "success_rate" and data.success is not None:
        return data.success
    if _teacher_acts(data, metric):
        return data.evaluations[-1].evaluation.success_rate if data.evaluations else None
    return data.metrics.get(metric)


def _teacher_acts(data: RunData, metric: str) -> bool:
    """Tell whether successes in training are also the teacher's, so that only evaluations count."""
    return metric == "success_rate" and data.algorithm == "distill"


def best_trial(trials: Sequence[TuneTrial]) -> TuneTrial | None:
    """Return the best trial; one that came to its end is better than those that were ended before."""
    ended = [trial for trial in trials if trial.status in ("completed", "stopped early") and trial.score is not None]
    return max(ended, key=lambda trial: (trial.status == "completed", trial.score), default=None)
