# SPDX-License-Identifier: BSD-3-Clause
"""The search for the number of environments. It runs nothing itself: tests check exactly which sizes it tries."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.scaling.trial import Outcome, Trial

__all__ = [
    "BRACKET",
    "MARGIN",
    "RESOLUTION",
    "TOLERANCE",
    "Objective",
    "SearchResult",
    "StopReason",
    "capacity",
    "fits_with_margin",
    "search",
]

TOLERANCE = 0.05
"""A size whose frames per second are this close to the best is as good: more environments would only cost memory."""
MARGIN = 0.015
"""Part of a memory budget that a winner leaves free. The peaks of one size differ from run to run: with a standard
deviation of 0.5 %, a winner at this margin fits again in 98 of 100 runs, and most winners use less."""
RESOLUTION = 0.02
"""Part by which a predicted size has to be larger than the best one to be worth a trial. What is given up is between
nothing and this part, so in the median the winner is 99 % of the largest size that fits."""
BRACKET = 0.06
"""Bisection stops when the bracket is narrower than this part of its lower end. Each halving costs a trial, and every
other trial fails. From a bracket of `_REACH`, the widest after two sizes, it takes six."""
_ENOUGH = 10
"""Trials after which the largest size that fits with the margin is the answer; doubling for throughput may still go on.
"""
_AIM = 0.003
"""Part of the budget by which a proposed size stays below the margin. Aimed at the margin itself, noise would push
every other trial past it."""
_GROWTH = 8
"""How many times larger than the first size the second one is at most. One trial alone tells no slope."""
_REACH = 32
"""How many times beyond the largest size that fitted a prediction from two or more trials is believed."""
_APART = 1.05
"""How many times larger one of two sizes has to be: between closer ones, noise hides the slope of memory."""


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
    TRIALS = "max_trials"
    """The number of trials was used up."""
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


def search(
    run_trial: Callable[[int], Trial],
    *,
    lo: int,
    hi: int,
    granule: int,
    objective: Objective,
    start: int | None = None,
    floor: int | None = None,
    finest: int = 1,
    max_trials: int | None = None,
    max_seconds: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> SearchResult:
    """Find the best number of environments by trying some.

    Trials that fit tell how memory grows. Two small ones give a line: fixed cost, and bytes per environment. Later the
    line goes through the largest two, or a parabola through the largest three once a failure has shown that memory
    grows faster than the line. It proposes the largest size inside the memory budgets of the trials.

    Trials that fail bound a bracket from above. Where they contradict the proposal, or proposals narrow the bracket too
    slowly, the bracket is bisected at its geometric mean. To fall back on bisection is Dekker's idea (T. J. Dekker,
    "Finding a zero by means of successive linear interpolation", 1969).

    With `Objective.THROUGHPUT` sizes are doubled at most, and no size is tried that is predicted not to fit. The search
    also ends as soon as more environments bring no more frames per second.

    No size is tried above the `Trial.most_envs` of a trial, unless it is below `lo`.

    Where not even `lo` fits, sizes are halved down to `floor`. Those between the first that fits and the next larger
    one are searched like all others, with a granule of about a quarter of the smaller.

    Peaks are noisy. A size that fits, but with less than `MARGIN` of a budget free, therefore bounds the bracket from
    above, and wins only when no other size fits.

    Args:
        run_trial: Tries a size. Its trial has that size. Called once per size at most.
        lo: Smallest size to try; rounded up to a multiple of the granule.
        hi: Largest size to try; rounded down to a multiple of the granule.
        granule: Sizes are multiples of this, positive.
        objective: What the best size is.
        start: First size to try, moved into [lo, hi]; None: `lo`.
        floor: Smallest size to try where `lo` does not fit; None: `lo`.
        finest: Sizes below `lo` are multiples of this; so is the floor.
        max_trials: Most trials; None: as many as it takes.
        max_seconds: No trial is started that would probably end later than this [s]; None: no limit. The first
            trial always runs. A trial is expected to take as long as the slowest one so far, without the first: that
            one may have compiled kernels.
        clock: Monotonic clock [s].

    Returns:
        The winner and every trial. The winner is always a size that ran and fitted. With `Objective.MEMORY` a
        larger size may fit, by less than about `RESOLUTION` where memory decides, `BRACKET` where something else does.

    Raises:
        ConfigError: No multiple of the granule lies between `lo` and `hi`.
    """
    sizes = _Sizes(lo, hi, granule, floor, finest)
    trials: list[Trial] = []
    durations: list[float] = []
    began = clock()
    size = sizes.clip(lo if start is None else start)

    while True:
        trial_began = clock()
        trial = run_trial(size)
        trials.append(trial)
        durations.append(clock() - trial_began)

        if trial.outcome in (Outcome.ERROR, Outcome.NAN):
            stop = StopReason.ERROR
            break

        next_size = _next_size(trials, sizes, objective)
        if next_size is None:
            stop = StopReason.COMPLETE
            break

        if max_trials is not None and len(trials) >= max_trials:
            stop = StopReason.TRIALS
            break
        if max_seconds is not None:
            left = max_seconds - (clock() - began)
            if left <= max(durations[1:], default=0.0):
                stop = StopReason.TIME
                break

        size = next_size

    return SearchResult(_best(trials, objective), tuple(trials), stop)


class _Sizes:
    """The sizes that may be tried: multiples of the granule between two ends, and where none fits, those below."""

    def __init__(self, lo: int, hi: int, granule: int, floor: int | None, finest: int) -> None:
        if granule < 1:
            raise ConfigError(f"scaling.granule={granule} must be at least 1")

        self.granule = granule
        self.lo = max(-(-lo // granule), 1) * granule
        self.hi = hi // granule * granule
        self.floor = self.lo if floor is None else floor
        self.finest = finest
        if self.lo > self.hi:
            raise ConfigError(
                f"scaling.min={lo}, scaling.max={hi}: no multiple of scaling.granule={granule} lies between them"
            )

    def clip(self, size: int) -> int:
        """Return the nearest allowed size that is not larger, or the smallest one."""
        return min(max(size // self.granule * self.granule, self.lo), self.hi)

    def up_to(self, trials: Sequence[Trial]) -> "_Sizes":
        """Return the sizes that an agent asks for, as far as trials tell."""
        most = min((t.most_envs for t in trials if t.most_envs is not None), default=self.hi)
        return _Sizes(self.lo, max(min(self.hi, most), self.lo), self.granule, self.floor, self.finest)

    def below(self, size: int) -> int | None:
        """Return the size to try where this one is too large, or None where it is the smallest."""
        if size > self.lo:
            return self.clip(math.isqrt(self.lo * size))
        half = max(size // 2 // self.finest * self.finest, self.floor)
        return half if half < size else None

    def from_below(self, size: int) -> "_Sizes":
        """Return the sizes from one below the smallest, with a granule of a quarter of it, rounded to a power of 2.

        The granule is finer where no multiple of it would lie between that size and the largest.
        """
        quarter = size // self.finest // 4
        granule = self.finest * (1 << max(quarter.bit_length() - 1, 0))
        while self.hi // granule * granule < size:
            granule //= 2
        return _Sizes(size, self.hi, granule, self.floor, self.finest)

    def middle(self, lower: int, upper: int) -> int:
        """Return an allowed size near the geometric mean: both are allowed, with another one between them."""
        size = self.clip(math.isqrt(lower * upper) + self.granule // 2)
        # Rounding may end on one of the two, which would learn nothing.
        return min(max(size, lower + self.granule), upper - self.granule)


def fits_with_margin(trial: Trial) -> bool:
    """Whether a trial fitted and left `MARGIN` of every memory budget free."""
    return trial.fits and all(used <= (1 - MARGIN) * budget for used, budget in _memories(trial) if budget is not None)


def capacity(trials: Sequence[Trial], margin: float = MARGIN) -> float:
    """Predict the largest size that leaves a margin of every memory budget free.

    Args:
        trials: Trials so far. Those that fit count, the largest and one well below it; with one alone, memory is taken
            to be in proportion to the size, which underestimates unless it grows faster than that.
        margin: Part of each budget to leave free.

    Returns:
        A number of environments; infinity when no trial tells of a limit.
    """
    fits = sorted((t for t in trials if t.fits), key=lambda t: t.num_envs)
    if not fits:
        return math.inf

    largest = fits[-1]
    contradicted = any(not t.fits and t.num_envs > largest.num_envs for t in trials)
    rooms = []
    for kind, (used, budget) in enumerate(_memories(largest)):
        if budget is not None:
            points = [(t.num_envs, _memories(t)[kind][0]) for t in fits]
            rooms.append(_room(points, (1 - margin) * budget - used, contradicted))

    # Host or GPU, whichever is full first.
    return largest.num_envs + min(rooms, default=math.inf)


def _room(points: list[tuple[int, int]], free: float, curved: bool) -> float:
    """Predict how many more environments fit into free memory.

    Args:
        points: Sizes and what they use [bytes], the smallest first.
        free: Memory left by the last one, negative when it uses too much [bytes].
        curved: Fit a parabola through three points instead of a line through two.

    Returns:
        Environments; infinity when memory does not grow.
    """
    apart = [points[-1]]
    for point in reversed(points):
        if point[0] * _APART <= apart[-1][0]:
            apart.append(point)

    (n, used), *others = apart
    if not others:
        others = points[:1] if len(points) > 1 else [(0, 0)]
    n1, used1 = others[0]
    slope = (used - used1) / (n - n1)

    if curved and len(others) > 1:
        n2, used2 = others[1]
        bend = (slope - (used1 - used2) / (n1 - n2)) / (n - n2)
        tangent = slope + bend * (n - n1)
        if bend > 0 and slope > 0:
            root = tangent**2 + 4 * bend * free
            return 2 * free / (tangent + math.sqrt(root)) if root > 0 else 0.0

    return free / slope if slope > 0 else math.inf


def _memories(trial: Trial) -> tuple[tuple[int, int | None], tuple[int, int | None]]:
    """Return what was used of host and device memory, each with its budget; None where nothing is known."""
    return (
        (trial.host_bytes, trial.host_budget if trial.host_bytes else None),
        (trial.device_bytes or 0, trial.device_budget if trial.device_bytes else None),
    )


def _bracket(trials: Sequence[Trial]) -> tuple[int | None, int | None]:
    """Return the largest size that fits with the margin, and the smallest one above it that does not."""
    lower = max((t.num_envs for t in trials if fits_with_margin(t)), default=None)
    above = (t.num_envs for t in trials if not fits_with_margin(t) and (lower is None or t.num_envs > lower))
    return lower, min(above, default=None)


def _next_size(trials: list[Trial], sizes: _Sizes, objective: Objective) -> int | None:
    """Return the size to try after these trials, or None when nothing is left to learn."""
    sizes = sizes.up_to(trials)
    lower, upper = _bracket(trials)
    if lower is None:
        return _next_below(trials, sizes)
    if lower < sizes.lo:
        sizes = sizes.from_below(lower)
    if _is_enough(trials, sizes, objective, lower, upper):
        return None

    predicted = capacity(trials, MARGIN + _AIM)
    worth = lower * (1 + (RESOLUTION if objective is Objective.MEMORY else TOLERANCE))
    if _has_slope(trials) and predicted < max(worth, lower + sizes.granule):
        return None
    if upper is None:
        return _next_above(trials, sizes, objective, lower, predicted)

    if any(t.fits and t.num_envs == upper for t in trials):
        # Noise, or a plateau: another proposal as near would as likely be past the margin.
        predicted = min(predicted, upper * (1 - RESOLUTION))
    if worth <= predicted < upper and not _has_to_bisect(trials, lower, upper):
        return max(sizes.clip(int(predicted)), lower + sizes.granule)
    narrow_enough = BRACKET if objective is Objective.MEMORY else TOLERANCE
    return None if upper <= lower * (1 + narrow_enough) else sizes.middle(lower, upper)


def _next_below(trials: list[Trial], sizes: _Sizes) -> int | None:
    """Return a smaller size where none fits with the margin; None where a smallest one fits without: the answer."""
    smallest = min(t.num_envs for t in trials)
    if sizes.hi < smallest:
        return sizes.hi
    enough = smallest <= sizes.lo and any(t.fits for t in trials)
    return None if enough else sizes.below(smallest)


def _is_enough(trials: list[Trial], sizes: _Sizes, objective: Objective, lower: int, upper: int | None) -> bool:
    """Whether nothing is left above the largest size that fits, or it is not worth a trial."""
    if objective is Objective.THROUGHPUT and not _largest_is_fastest(trials):
        return True
    if lower == sizes.hi or (upper is not None and upper - lower <= sizes.granule):
        return True
    return len(trials) >= _ENOUGH and (objective is Objective.MEMORY or upper is not None)


def _has_slope(trials: list[Trial]) -> bool:
    """Whether two sizes tell how memory grows with the environments."""
    return sum(t.fits for t in trials) > 1


def _next_above(trials: list[Trial], sizes: _Sizes, objective: Objective, lower: int, predicted: float) -> int:
    """Return a larger size than any that fits, where nothing has failed above it yet."""
    growth = 2 if objective is Objective.THROUGHPUT else _REACH if _has_slope(trials) else _GROWTH
    proposal = lower * growth
    if objective is Objective.MEMORY or _has_slope(trials):
        proposal = min(predicted, proposal)
    return max(sizes.clip(int(proposal)), lower + sizes.granule)


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


def _largest_is_fastest(trials: list[Trial]) -> bool:
    """Whether the largest size that fits is the fastest so far: only then may a still larger one be faster."""
    fits = sorted((t for t in trials if t.fits), key=lambda t: t.num_envs)
    return all(t.frames_per_second < fits[-1].frames_per_second for t in fits[:-1])


def _best(trials: list[Trial], objective: Objective) -> Trial | None:
    """Return the winner: among the trials that fit with the margin, or else the smallest that fits at all."""
    fits = sorted((t for t in trials if fits_with_margin(t)), key=lambda t: t.num_envs)
    if not fits:
        return min((t for t in trials if t.fits), key=lambda t: t.num_envs, default=None)
    if objective is Objective.MEMORY:
        return fits[-1]

    enough = max(t.frames_per_second for t in fits) * (1 - TOLERANCE)
    return next(t for t in fits if t.frames_per_second >= enough)
