# SPDX-License-Identifier: BSD-3-Clause
"""Growth of memory with the environments, and speed of each size, by all trials of a search together."""

import math
from collections.abc import Sequence

from isaaclab_pc.num_envs.trial import Trial

MARGIN = 0.015
"""Part of a memory budget that a winner leaves free. The peaks of one size differ from run to run: with a standard
deviation of 0.5 %, a winner at this margin fits again in 98 of 100 runs, and most winners use less."""
TOLERANCE = 0.05
"""A size whose frames per second are this close to the best is as good: more environments would only cost memory."""
_APART = 1.05
"""How many times larger one of two sizes has to be: between closer ones, noise hides the slope of memory."""


def telling(trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials that tell how memory grows, the smallest first: those that fit, the newest of each size."""
    newest = {trial.num_envs: trial for trial in trials if trial.fits}
    by_size = [newest[size] for size in sorted(newest)]
    # Compiling kernels takes memory that no later process needs.
    return [trial for trial in by_size if not trial.compiled] or by_size


def fits_with_margin(trial: Trial) -> bool:
    """Whether a trial fitted and left `MARGIN` of every memory budget free."""
    return trial.fits and all(used <= (1 - MARGIN) * budget for used, budget in _memories(trial) if budget is not None)


def capacity(trials: Sequence[Trial], margin: float = MARGIN) -> float:
    """Predict the largest size that leaves ``margin`` of every memory budget free; infinity where none is known.

    Trials that fit count, the largest and one well below it. With one alone, memory is taken to be in proportion to the
    size, which underestimates unless it grows faster than that.
    """
    fits = telling(trials)
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
    """Predict how many more environments fit into the memory that the last of these sizes leaves free [bytes]."""
    apart = [points[-1]]
    for point in reversed(points):
        if point[0] * _APART <= apart[-1][0]:
            apart.append(point)

    (n, used), *others = apart
    if not others:
        others = points[:1] if len(points) > 1 else [(0, 0)]
    n1, used1 = others[0]
    slope = (used - used1) / (n - n1)

    # A parabola through three points, instead of the line through two.
    if curved and len(others) > 1:
        n2, used2 = others[1]
        bend = (slope - (used1 - used2) / (n1 - n2)) / (n - n2)
        tangent = slope + bend * (n - n1)
        if bend > 0 and slope > 0:
            root = tangent**2 + 4 * bend * free
            return 2 * free / (tangent + math.sqrt(root)) if root > 0 else 0.0

    return free / slope if slope > 0 else math.inf


def _memories(trial: Trial) -> tuple[tuple[int, int | None], tuple[int, int | None]]:
    """Return the use of host and device memory, each with its budget; None where nothing is known."""
    return (
        (trial.host_bytes, trial.host_budget if trial.host_bytes else None),
        (trial.device_bytes or 0, trial.device_budget if trial.device_bytes else None),
    )


def pooled_speeds(trials: Sequence[Trial]) -> dict[int, float]:
    """Return the speed of each size that fits, in environment steps of training per second [1/s], the smallest first.

    Other programs only ever make an iteration slower, so the least time counts: of a rollout, the least of all trials
    of its size, and of an update, the least of all trials that learn from minibatches of the same shape with the same
    settings. A trial without times counts with its own frames per second.
    """
    fits = sorted((trial for trial in trials if trial.fits), key=lambda trial: trial.num_envs)
    updates: dict[object, float] = {}
    for trial in fits:
        if _is_timed(trial):
            per_sample = trial.seconds["update"] / trial.samples
            updates[_work(trial)] = min(updates.get(_work(trial), math.inf), per_sample)

    speeds: dict[int, float] = {}
    for trial in fits:
        speed = trial.frames_per_second
        if _is_timed(trial):
            per_sample = trial.seconds["rollout"] / trial.samples + updates[_work(trial)]
            speed = 1 / per_sample if per_sample > 0 else speed
        speeds[trial.num_envs] = max(speed, speeds.get(trial.num_envs, 0.0))
    return speeds


def smallest_near_best(speeds: dict[int, float]) -> int:
    """Return the smallest size within `TOLERANCE` of the best speed, given speeds by size."""
    enough = (1 - TOLERANCE) * max(speeds.values())
    return min(size for size, speed in speeds.items() if speed >= enough)


def _is_timed(trial: Trial) -> bool:
    return trial.samples > 0 and {"rollout", "update"} <= trial.seconds.keys()


def _work(trial: Trial) -> object:
    """Return a key that is equal for updates with the same time by sample."""
    return trial.minibatch, tuple(sorted(trial.overrides.items()))
