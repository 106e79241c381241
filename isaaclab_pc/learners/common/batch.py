# SPDX-License-Identifier: BSD-3-Clause
"""Steps and minibatches of an update, chosen so that any number of environments learns from as many samples."""

import math
from dataclasses import dataclass

HORIZON = (8, 128)
"""Fewest and most steps of each environment per update."""
SAMPLES_SLACK = 0.1
"""Relative change of the samples per update that is accepted to get minibatches of about the right size."""
MINIBATCH_SLACK = 1.25
"""Factor by which a minibatch may differ from its target and still be about right."""


@dataclass(frozen=True)
class BatchPlan:
    """The shape of one rollout and its update: `num_envs * horizon == num_minibatches * minibatch_size`, exactly."""

    horizon: int
    """Steps of each environment per update."""
    num_minibatches: int
    """Minibatches per epoch."""
    minibatch_size: int
    """Samples per minibatch."""

    @property
    def samples_per_update(self) -> int:
        """Samples of all environments per update."""
        return self.num_minibatches * self.minibatch_size


def plan_batch(num_envs: int, samples_per_update: int, minibatch_size: int, *, whole_envs: bool = False) -> BatchPlan:
    """Choose horizon and minibatches for a number of environments; every number is at least 1.

    The samples per update come as close to the target as :data:`HORIZON` allows. Minibatches divide them exactly,
    because RL-Games refuses a remainder and RSL-RL drops it. Where the closest horizon has no divisor near the wanted
    minibatch, the samples may move by up to `SAMPLES_SLACK` to find one. With ``whole_envs``, a minibatch takes all
    steps of its environments, as a recurrent policy needs them.
    """
    fewest, most = HORIZON

    def distance(steps: int) -> int:
        return abs(num_envs * steps - samples_per_update)

    closest = min(range(fewest, most + 1), key=distance)
    close_enough = max(distance(closest), SAMPLES_SLACK * samples_per_update)
    candidates = [steps for steps in range(fewest, most + 1) if distance(steps) <= close_enough]

    def size(steps: int) -> int:
        if whole_envs:
            return steps * _nearest_divisor(num_envs, minibatch_size / steps)
        return _nearest_divisor(num_envs * steps, minibatch_size)

    def cost(steps: int) -> tuple[bool, int, int]:
        # Where there are too few samples, all of them at once are the best that can be had.
        error = _ratio(size(steps), min(minibatch_size, num_envs * steps))
        return error > MINIBATCH_SLACK, distance(steps), steps

    chosen = min(candidates, key=cost)
    minibatches = num_envs * chosen // size(chosen)
    return BatchPlan(horizon=chosen, num_minibatches=minibatches, minibatch_size=size(chosen))


def most_envs(samples_per_update: int) -> int:
    """Return the environments beyond which the shortest rollout gives more samples than an update should have."""
    return max(samples_per_update // HORIZON[0], 1)


def _nearest_divisor(total: int, target: float) -> int:
    """Return the divisor of `total` whose ratio to `target` is nearest to 1 (the smaller of two)."""
    small = [d for d in range(1, math.isqrt(total) + 1) if total % d == 0]
    divisors = sorted({*small, *(total // d for d in small)})
    return min(divisors, key=lambda d: _ratio(d, target))


def _ratio(a: float, b: float) -> float:
    return max(a, b) / min(a, b)
