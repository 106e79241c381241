# SPDX-License-Identifier: BSD-3-Clause
"""The search for the number of environments: pure, so that fakes can hold it to its exact probe sequence."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.scaling.trial import Outcome, Trial

__all__ = ["TOLERANCE", "Objective", "SearchResult", "Stop", "search"]

TOLERANCE = 0.05
"""A size whose frames per second are this close to the best is as good: more environments would only cost memory."""


class Objective(StrEnum):
    """What the best size is."""

    MEMORY = "memory"
    """The largest size that fits."""
    THROUGHPUT = "throughput"
    """The smallest size within `TOLERANCE` of the most training frames per second."""


class Stop(StrEnum):
    """Why a search ended."""

    COMPLETE = "complete"
    """No other size could be better."""
    TRIALS = "max_trials"
    """The number of trials was used up."""
    TIME = "max_seconds"
    """Another trial would not have been done in time."""
    ERROR = "error"
    """A trial failed by the user's code; the last trial says how."""


@dataclass(frozen=True)
class SearchResult:
    """The answer of a search and all it rests on."""

    best: Trial | None
    """The winner, a trial that ran and fitted; None when no size did."""
    trials: tuple[Trial, ...]
    """Every trial, in the order they ran."""
    stop: Stop
    """Why the search ended."""


def search(
    probe: Callable[[int], Trial],
    *,
    lo: int,
    hi: int,
    granule: int,
    objective: Objective,
    start: int | None = None,
    max_trials: int | None = None,
    max_seconds: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> SearchResult:
    """Find the best number of environments by trying some.

    Sizes are doubled from `start` until one fails (or halved until one fits); then the bracket is bisected in
    multiples of the granule. With `Objective.THROUGHPUT` the search also ends as soon as more environments
    bring no more frames per second.

    Args:
        probe: Tries a size. Its trial has that size. Called once per size at most.
        lo: Smallest size to try; rounded up to a multiple of the granule.
        hi: Largest size to try; rounded down to a multiple of the granule.
        granule: Sizes are multiples of this, positive.
        objective: What the best size is.
        start: First size to try, moved into [lo, hi]; None: `lo`.
        max_trials: Most probes; None: as many as it takes.
        max_seconds: No probe is started that would probably end later than this [s]; None: no limit. The first
            probe always runs. How long a probe takes is judged by the slowest one so far, without the first: that one
            may have compiled kernels.
        clock: Seconds that only grow.

    Returns:
        The winner and every trial. The winner is always a size that ran and fitted.

    Raises:
        ConfigError: No multiple of the granule lies between `lo` and `hi`.
    """
    sizes = _Sizes(lo, hi, granule)
    began = clock()
    trials: list[Trial] = []
    durations: list[float] = []
    size = sizes.clip(lo if start is None else start)
    while True:
        probe_began = clock()
        trial = probe(size)
        trials.append(trial)
        durations.append(clock() - probe_began)
        if trial.outcome is Outcome.ERROR:
            stop = Stop.ERROR
            break
        following = _next_size(trials, sizes, objective)
        if following is None:
            stop = Stop.COMPLETE
            break
        if max_trials is not None and len(trials) >= max_trials:
            stop = Stop.TRIALS
            break
        if max_seconds is not None:
            left = max_seconds - (clock() - began)
            if left <= max(durations[1:], default=0.0):
                stop = Stop.TIME
                break
        size = following
    return SearchResult(_best(trials, objective), tuple(trials), stop)


class _Sizes:
    """The sizes that may be tried: multiples of the granule between two ends."""

    def __init__(self, lo: int, hi: int, granule: int) -> None:
        if granule < 1:
            raise ConfigError(f"scaling.granule={granule} must be at least 1")
        self.granule = granule
        self.lo = max(-(-lo // granule), 1) * granule
        self.hi = hi // granule * granule
        if self.lo > self.hi:
            raise ConfigError(
                f"scaling.min={lo}, scaling.max={hi}: no multiple of scaling.granule={granule} lies between them"
            )

    def clip(self, size: int) -> int:
        """Return the nearest allowed size that is not larger, or the smallest one."""
        return min(max(size // self.granule * self.granule, self.lo), self.hi)


def _next_size(trials: list[Trial], sizes: _Sizes, objective: Objective) -> int | None:
    """Return the size to try after these trials, or None when nothing is left to learn."""
    good = max((t.num_envs for t in trials if t.fits), default=None)
    bad = min((t.num_envs for t in trials if not t.fits), default=None)
    if good is None:
        smallest = min(t.num_envs for t in trials)
        return None if smallest == sizes.lo else sizes.clip(smallest // 2)
    if objective is Objective.THROUGHPUT and not _grows(trials):
        return None
    if bad is None:
        return None if good == sizes.hi else sizes.clip(2 * good)
    if objective is Objective.THROUGHPUT and bad <= good * (1 + TOLERANCE):
        return None  # frames per second grow at most in proportion to the size
    middle = sizes.clip((good + bad) // 2)
    return None if middle == good else middle


def _grows(trials: list[Trial]) -> bool:
    """Whether the largest size that fits is also the fastest, so that a still larger one may be faster."""
    fits = sorted((t for t in trials if t.fits), key=lambda t: t.num_envs)
    return all(t.frames_per_second < fits[-1].frames_per_second for t in fits[:-1])


def _best(trials: list[Trial], objective: Objective) -> Trial | None:
    """Return the winner among the trials that fit."""
    fits = sorted((t for t in trials if t.fits), key=lambda t: t.num_envs)
    if not fits or objective is Objective.MEMORY:
        return fits[-1] if fits else None
    enough = max(t.frames_per_second for t in fits) * (1 - TOLERANCE)
    return next(t for t in fits if t.frames_per_second >= enough)
