# SPDX-License-Identifier: BSD-3-Clause
"""The search for the number of environments. It runs nothing itself: tests check exactly which sizes it tries.

Trials that fit tell how memory grows. Two small ones give a line: fixed cost, and bytes per environment. Later the line
goes through the largest two, or a parabola through the largest three once a failure has shown that memory grows faster
than the line. It proposes the largest size inside the memory budgets of the trials.

Trials that fail bound a bracket from above. Where they contradict the proposal, or proposals narrow the bracket too
slowly, the bracket is bisected at its geometric mean. To fall back on bisection is Dekker's idea (T. J. Dekker,
"Finding a zero by means of successive linear interpolation", 1969). Peaks are noisy: a size that fits with less than
`MARGIN` of a budget free bounds the bracket, too, and wins only when no other size fits.

With `Objective.THROUGHPUT` sizes are halved, from the largest that is allowed and predicted to fit, until one is more
than `TOLERANCE` slower than the best. Other programs on the machine make trials look slow. On the way down that ends
the search with more environments than needed, which costs memory; on the way up it would end it with few, which costs
speed. A size that looks slower than a smaller one runs a second time. Where only the largest size that fits is near the
best, the bracket above it is searched as well.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from isaaclab_pc.num_envs.trends import (
    MARGIN,
    TOLERANCE,
    capacity,
    fits_with_margin,
    pooled_speeds,
    smallest_near_best,
    telling,
)
from isaaclab_pc.num_envs.trial import Outcome, Trial

RESOLUTION = 0.02
"""Part by which a predicted size has to be larger than the best one to be worth a trial. The winner is at most this
part too small; in the median the winner is 99 % of the largest size that fits."""
BRACKET = 0.06
"""Bisection stops when the bracket is narrower than this part of its lower end. Each halving costs a trial, and every
other trial fails. From a bracket of `_REACH`, the widest after two sizes, it takes six."""
_ENOUGH = 10
"""Trials after which the largest size that fits with the margin is the answer; halving for throughput may go on."""
_AIM = 0.003
"""Part of the budget by which a proposed size stays below the margin, or noise would push every other trial past it."""
_LAST_AIM = 0.03
"""The same where no other trial can follow. Allocators grow in steps, which puts a prediction from two small sizes off
by a few percent, and a last trial past the margin leaves the search with the small ones."""
_SPARE = 4
"""Another trial can surely follow where so many times its expected duration is left: from small sizes, the duration of
a large one is underestimated by up to a half."""
_IN_TIME = 0.9
"""Part of the time that is left within which a trial is expected to end that was made smaller for it."""
_GROWTH = 8
"""How many times larger than the first size the second one is at most. One trial alone tells no slope."""
_REACH = 32
"""How many times beyond the largest size that fitted a prediction from two or more trials is believed."""


class Objective(StrEnum):
    """Which size is the best."""

    MEMORY = "memory"
    """The largest size that fits."""
    THROUGHPUT = "throughput"
    """The smallest size within `TOLERANCE` of the most training frames per second."""


class StopReason(StrEnum):
    """Why a search ended."""

    COMPLETE = "complete"
    """No other size is worth a trial."""
    TIME = "max_seconds"
    """Another trial would not have been done in time."""
    ERROR = "error"
    """A trial failed by the user's code or trained on NaN; the last trial says how."""


@dataclass(frozen=True)
class SearchResult:
    """The answer of a search, and its trials."""

    best: Trial | None
    """The winner, a trial that ran and fitted; None when no size did."""
    trials: tuple[Trial, ...]
    """Every trial, in the order they ran."""
    stop: StopReason
    """Why the search ended."""
    frames_per_second: float = 0.0
    """The winner's speed by all trials together [1/s]; 0 where there is none."""


def search(
    run_trial: Callable[[int], Trial],
    *,
    lo: int,
    hi: int,
    granule: int,
    objective: Objective,
    start: int | None = None,
    floor: int | None = None,
    max_seconds: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> SearchResult:
    """Find the best number of environments by trying some.

    No size is tried above the `Trial.most_envs` of a trial, unless it is below `lo`. Where not even `lo` fits, sizes
    are halved down to `floor`, and those between the first that fits and the next larger one are searched like all
    others.

    Args:
        run_trial: Tries a size: once at most, twice with `Objective.THROUGHPUT`.
        lo: Smallest size to try; rounded up to a multiple of the granule.
        hi: Largest size to try; rounded down to a multiple of the granule, which is not below `lo`.
        granule: Sizes are multiples of this, positive.
        objective: Which size is the best.
        start: First size to try, moved into [lo, hi]; None: `lo`.
        floor: Smallest size to try where `lo` does not fit; None: `lo`.
        max_seconds: No trial but the first is started that would probably end later than this [s]; None: no limit.
        clock: Monotonic clock [s].

    Returns:
        The winner, which ran and fitted, and every trial. With `Objective.MEMORY` a larger size may fit, by less than
        about `RESOLUTION` where memory decides, 5 % where time was short as well, and `BRACKET` where
        something else decides.
    """
    sizes = _Sizes(lo, hi, granule, floor)
    trials: list[Trial] = []
    durations: list[float] = []
    began = clock()
    step: int | StopReason = sizes.clip(lo if start is None else start)

    while not isinstance(step, StopReason):
        trial_began = clock()
        trials.append(run_trial(step))
        durations.append(clock() - trial_began)

        seconds_left = math.inf if max_seconds is None else max_seconds - (clock() - began)
        # The first trial may have compiled kernels.
        longest = max(durations[1:], default=0.0)
        step = _next_step(trials, sizes, objective, _Left.of(trials, seconds_left, longest))

    best = _best(trials, objective)
    speed = 0.0 if best is None else pooled_speeds(trials)[best.num_envs]
    return SearchResult(best, tuple(trials), step, speed)


class _Sizes:
    """The sizes that may be tried: multiples of the granule between two ends, and where none fits, those below."""

    def __init__(self, lo: int, hi: int, granule: int, floor: int | None) -> None:
        self.granule = granule
        self.lo = max(-(-lo // granule), 1) * granule
        self.hi = hi // granule * granule
        self.floor = self.lo if floor is None else floor

    def clip(self, size: int) -> int:
        """Return the nearest allowed size that is not larger, or the smallest one."""
        return min(max(size // self.granule * self.granule, self.lo), self.hi)

    def up_to(self, trials: Sequence[Trial]) -> "_Sizes":
        """Return the sizes that an agent asks for, as far as trials tell."""
        most = min((t.most_envs for t in trials if t.most_envs is not None), default=self.hi)
        return _Sizes(self.lo, max(min(self.hi, most), self.lo), self.granule, self.floor)

    def below(self, size: int) -> int | None:
        """Return the size to try where this one is too large, or None where it is the smallest."""
        if size > self.lo:
            return self.clip(math.isqrt(self.lo * size))
        half = max(size // 2, self.floor)
        return half if half < size else None

    def from_below(self, size: int) -> "_Sizes":
        """Return the sizes from one below the smallest, with a granule of about a quarter of it."""
        granule = 1 << max((size // 4).bit_length() - 1, 0)
        while self.hi // granule * granule < size:
            granule //= 2
        return _Sizes(size, self.hi, granule, self.floor)

    def middle(self, lower: int, upper: int) -> int:
        """Return an allowed size near the geometric mean: both are allowed, with another one between them."""
        size = self.clip(math.isqrt(lower * upper) + self.granule // 2)
        # Rounding may end on one of the two, which would learn nothing.
        return min(max(size, lower + self.granule), upper - self.granule)


@dataclass(frozen=True)
class _Left:
    """Time that is left, and the time a trial takes: a line over the sizes, flat below the largest."""

    seconds: float
    size: int
    trial_seconds: float
    seconds_per_env: float

    @classmethod
    def of(cls, done: Sequence[Trial], seconds: float, longest: float) -> "_Left":
        """Fit the line to trials that fitted; the longest, with all its attempts, took at least ``longest`` [s]."""
        timed = [(trial.num_envs, trial.wall_seconds) for trial in telling(done) if not trial.compiled]
        if not timed:
            return cls(seconds, 0, longest, 0.0)
        (smallest, least), (largest, most) = timed[0], timed[-1]
        per_env = (most - least) / (largest - smallest) if largest > smallest else 0.0
        return cls(seconds, largest, max(longest, most), max(per_env, 0.0))

    def expected(self, size: int) -> float:
        """Return how long a trial of a size probably takes [s]."""
        return self.trial_seconds + self.seconds_per_env * max(size - self.size, 0)

    def largest(self) -> float:
        """Return the largest size that probably ends within `_IN_TIME` of the time that is left."""
        spare = _IN_TIME * self.seconds - self.trial_seconds
        if self.seconds_per_env > 0:
            return max(self.size + spare / self.seconds_per_env, 0.0)
        return math.inf if spare >= 0 else 0.0


def _next_step(trials: Sequence[Trial], sizes: _Sizes, objective: Objective, left: _Left) -> int | StopReason:
    """Return the next size to try, smaller where time is short, or why the search ends."""
    if trials[-1].outcome in (Outcome.ERROR, Outcome.NAN):
        return StopReason.ERROR
    size = _next_size(trials, sizes, objective)
    if size is None:
        return StopReason.COMPLETE

    decisive = _decisive(trials)
    lower, upper = _bracket(decisive)
    if lower is not None and size > lower:
        worth = lower * (1 + RESOLUTION)
        if left.seconds < _SPARE * left.expected(size):
            cautious = sizes.clip(int(min(capacity(decisive, MARGIN + _LAST_AIM), sizes.hi)))
            if cautious < worth and upper is None and objective is Objective.MEMORY:
                return StopReason.COMPLETE
            size = min(size, cautious) if cautious >= worth else size
        in_time = sizes.clip(int(min(left.largest(), sizes.hi)))
        size = min(size, in_time) if in_time >= worth else size
    return size if left.expected(size) < left.seconds else StopReason.TIME


def _bracket(trials: Sequence[Trial]) -> tuple[int | None, int | None]:
    """Return the largest size that fits with the margin, and the smallest one above it that does not."""
    lower = max((t.num_envs for t in trials if fits_with_margin(t)), default=None)
    above = (t.num_envs for t in trials if not fits_with_margin(t) and (lower is None or t.num_envs > lower))
    return lower, min(above, default=None)


def _decisive(trials: Sequence[Trial]) -> list[Trial]:
    """Return one trial of each size: where it ran twice the second, unless that had no time to end."""
    decisive: dict[int, Trial] = {}
    for trial in trials:
        if trial.num_envs not in decisive or trial.outcome is not Outcome.TIMEOUT:
            decisive[trial.num_envs] = trial
    return list(decisive.values())


def _next_size(trials: Sequence[Trial], sizes: _Sizes, objective: Objective) -> int | None:
    """Return the size to try after these trials, or None when nothing is left to learn."""
    decisive = _decisive(trials)
    sizes = sizes.up_to(decisive)
    lower, upper = _bracket(decisive)
    if lower is None:
        return _next_below(decisive, sizes, objective)
    if lower < sizes.lo:
        sizes = sizes.from_below(lower)
    if objective is Objective.THROUGHPUT:
        return _next_by_speed(trials, sizes, lower, upper)
    return _next_by_memory(decisive, sizes, lower, upper, RESOLUTION, BRACKET)


def _next_below(trials: list[Trial], sizes: _Sizes, objective: Objective) -> int | None:
    """Return a smaller size where none fits with the margin; None where a smallest one fits without: the answer."""
    smallest = min(t.num_envs for t in trials)
    if sizes.hi < smallest:
        return sizes.hi
    if smallest > sizes.lo and objective is Objective.THROUGHPUT:
        return sizes.clip(smallest // 2)
    enough = smallest <= sizes.lo and any(t.fits for t in trials)
    return None if enough else sizes.below(smallest)


def _next_by_speed(trials: Sequence[Trial], sizes: _Sizes, lower: int, upper: int | None) -> int | None:
    """Return the next size on the way down from the largest that fits, or None when nothing faster is left."""
    decisive = _decisive(trials)
    if upper is None:
        larger = sizes.clip(int(min(capacity(decisive, MARGIN + _AIM), lower * _GROWTH)))
        if larger > lower * (1 + TOLERANCE):
            return larger

    holding = {t.num_envs for t in decisive if fits_with_margin(t)}
    speeds = {size: speed for size, speed in pooled_speeds(trials).items() if size in holding}
    ran_once = [size for size in speeds if sum(t.num_envs == size for t in trials) == 1]
    for size in ran_once:
        if any(smaller < size and speeds[size] < (1 - TOLERANCE) * speeds[smaller] for smaller in speeds):
            return size

    smallest = smallest_near_best(speeds)
    half = sizes.clip(smallest // 2)
    if half < smallest and not any(half <= t.num_envs < smallest for t in trials):
        return half
    if smallest < lower or upper is None:
        return None
    return _next_by_memory(decisive, sizes, lower, upper, TOLERANCE, TOLERANCE)


def _next_by_memory(
    trials: list[Trial], sizes: _Sizes, lower: int, upper: int | None, gain: float, narrow: float
) -> int | None:
    """Return a size above the largest that fits; None where it gains less than ``gain`` or the bracket is narrow."""
    if lower == sizes.hi or (upper is not None and upper - lower <= sizes.granule) or len(trials) >= _ENOUGH:
        return None

    predicted = capacity(trials, MARGIN + _AIM)
    worth = lower * (1 + gain)
    has_slope = len(telling(trials)) > 1
    if has_slope and predicted < max(worth, lower + sizes.granule):
        return None
    if upper is None:
        proposal = min(predicted, lower * (_REACH if has_slope else _GROWTH))
        return max(sizes.clip(int(proposal)), lower + sizes.granule)

    if any(t.fits and t.num_envs == upper for t in trials):
        # Noise, or a plateau: another proposal as near would as likely be past the margin.
        predicted = min(predicted, upper * (1 - RESOLUTION))
    if worth <= predicted < upper and not _has_to_bisect(trials, lower, upper):
        return max(sizes.clip(int(predicted)), lower + sizes.granule)
    return None if upper <= lower * (1 + narrow) else sizes.middle(lower, upper)


def _has_to_bisect(trials: list[Trial], lower: int, upper: int) -> bool:
    """Whether predictions have failed, or two trials together have not halved the bracket."""
    if _bracket(trials[:-1])[1] not in (None, upper):
        return True
    if sum(t.num_envs >= upper for t in trials if not fits_with_margin(t)) > 2:
        return True

    old_lower, old_upper = _bracket(trials[:-2])
    if old_lower is None or old_upper is None:
        return False
    return math.log(upper / lower) > math.log(old_upper / old_lower) / 2


def _best(trials: Sequence[Trial], objective: Objective) -> Trial | None:
    """Return the winner: among the trials that fit with the margin, or else the smallest that fits at all."""
    decisive = _decisive(trials)
    fits = {trial.num_envs: trial for trial in decisive if fits_with_margin(trial)}
    if not fits:
        return min((t for t in decisive if t.fits), key=lambda t: t.num_envs, default=None)
    if objective is Objective.MEMORY:
        return fits[max(fits)]
    return fits[smallest_near_best({n: speed for n, speed in pooled_speeds(trials).items() if n in fits})]
