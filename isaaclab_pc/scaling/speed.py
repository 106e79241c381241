# SPDX-License-Identifier: BSD-3-Clause
"""How fast each number of environments trains, as trials tell it together beside other programs on the machine."""

import math
from collections.abc import Sequence

from isaaclab_pc.scaling.trial import Trial

__all__ = ["TOLERANCE", "pooled_speeds", "smallest_near_best"]

TOLERANCE = 0.05
"""A size whose frames per second are this close to the best is as good: more environments would only cost memory."""


def pooled_speeds(trials: Sequence[Trial]) -> dict[int, float]:
    """Return the speed of each size that fits.

    Other programs only ever make an iteration slower, so the least time counts: of a rollout, the least of all trials
    of its size, and of an update, the least of all trials that learn from minibatches of the same shape with the same
    settings. An update learns from as many samples at every size, and takes as long.

    Args:
        trials: Trials so far.

    Returns:
        Environment steps of training per second [1/s] by size, the smallest size first. A trial without times counts
        with its own frames per second.
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
    """Return the smallest size whose speed is within `TOLERANCE` of the best.

    Args:
        speeds: Speed by size, at least one.
    """
    enough = (1 - TOLERANCE) * max(speeds.values())
    return min(size for size, speed in speeds.items() if speed >= enough)


def _is_timed(trial: Trial) -> bool:
    return trial.samples > 0 and {"rollout", "update"} <= trial.seconds.keys()


def _work(trial: Trial) -> object:
    """Return what the time of an update by sample depends on."""
    return trial.minibatch, tuple(sorted(trial.overrides.items()))
