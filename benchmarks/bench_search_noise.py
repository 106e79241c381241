# SPDX-License-Identifier: BSD-3-Clause
"""The search for the fastest number of environments beside other programs; `bench_search.py` writes its table.

Six curves of speed, as on two CPU cores: an iteration has 4,096 samples, its rollout takes 9 to 50 ms for each step and
0.3 to 1.2 ms for each sample, its update 1 to 4 s at every size. The right size is 256 on three of them, 128 on one and
64 on two, of which one is slower at 256. A trial builds for 10 s and 0.01 s an environment, does an iteration that is
not measured, and measures for 5 s, at least one more.

Other programs slow each build, rollout and update by a factor of its own, 1 + (m - 1) u^3 with u drawn evenly from 0
to 1. m is 2.5 beside one other job and 8 beside two or three, so that a quarter is hardly slowed, and half by two or
more: rollouts of `lift` took twice as long in the median beside two programs of 60 % of a core each. At a load of 9
the factor is three times that. Two or three jobs start in the middle, within the first 80 s.

The right size is the smallest within 5 % of the best. An answer below half of that fails; lost is its true speed
against the best. There is no time limit. Methods:

- upwards, mean: doubles from 32 while a size is faster than all smaller ones, by the mean time of an iteration.
- upwards, pooled: the least rollout of a size and the least update of all trials count, and a size that looks slower
  runs again.
- downwards, pooled: this project's search. It halves from 256 until a size is more than 5 % slower than the best; a
  size that looks slower than a smaller one runs again.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable
from dataclasses import dataclass

from isaaclab_pc.num_envs.search import Objective, search
from isaaclab_pc.num_envs.trends import pooled_speeds, smallest_near_best
from isaaclab_pc.num_envs.trial import Outcome, Trial

SIZES = (32, 64, 128, 256)
SAMPLES = 4096
MEASURED_SECONDS = 5.0


@dataclass(frozen=True)
class SpeedCurve:
    """Times of an iteration without other programs."""

    step: float
    """Time of a step of all environments that does not depend on how many there are [s]."""
    sample: float
    """Time of each environment in a step [s]."""
    update: float
    """Time of an update [s]."""
    crowding: float = 0.0
    """By how much the time of each environment grows with each other one [s]."""

    def rollout(self, n: int) -> float:
        """Return the time of a rollout of n environments [s]."""
        return SAMPLES * (self.step / n + self.sample + self.crowding * n)

    def speed(self, n: int) -> float:
        """Return environment steps per second [1/s]."""
        return SAMPLES / (self.rollout(n) + self.update)


CURVES = (
    SpeedCurve(step=0.0236, sample=3.1e-4, update=1.3),
    SpeedCurve(step=0.0140, sample=4.0e-4, update=1.9),
    SpeedCurve(step=0.0500, sample=6.0e-4, update=2.0),
    SpeedCurve(step=0.0100, sample=7.0e-4, update=2.0),
    SpeedCurve(step=0.0090, sample=1.2e-3, update=4.0),
    SpeedCurve(step=0.0120, sample=3.0e-4, update=1.0, crowding=1e-6),
)
"""About `reach` and `lift` on two CPU cores, slow physics, slower cameras, slower still, and one that falls."""


@dataclass(frozen=True)
class Company:
    """Other programs on the machine."""

    name: str
    """Name in the table."""
    most: float = 1.0
    """The most by which they slow a rollout or an update."""
    least: float = 1.0
    """The least."""
    begins: tuple[float, float] = (0.0, 0.0)
    """Between which times they start [s]."""


COMPANIES = (
    Company("quiet"),
    Company("one other job", 2.5),
    Company("two or three", 8.0),
    Company("load 9", 8.0, 3.0),
    Company("two or three start in the middle", 8.0, begins=(0.0, 80.0)),
)


class Machine:
    """Runs trials of a curve beside other programs, and counts their time."""

    def __init__(self, curve: SpeedCurve, company: Company, seed: int) -> None:
        """Start the clock.

        Args:
            curve: Times without other programs.
            company: The other programs.
            seed: Of what they do.
        """
        self.curve = curve
        self.now = 0.0
        self.trials: list[Trial] = []
        self._company = company
        self._random = random.Random(f"{curve} {company.name} {seed}")
        self._begin = self._random.uniform(*company.begins)

    def run(self, n: int) -> Trial:
        """Run a trial; it has the least times of its iterations, and their mean as its frames per second."""
        began = self.now
        self._take(10 + 0.01 * n)
        iterations = [self._iteration(n)]
        measured_from = self.now
        while len(iterations) < 2 or self.now < measured_from + MEASURED_SECONDS:
            iterations.append(self._iteration(n))

        rollouts, updates = zip(*iterations[1:], strict=True)
        mean = (sum(rollouts) + sum(updates)) / len(rollouts)
        seconds = {"rollout": min(rollouts), "update": min(updates)}
        times = {"seconds": seconds, "samples": SAMPLES, "minibatch": (1024,), "wall_seconds": self.now - began}
        self.trials.append(Trial(n, Outcome.FITS, SAMPLES / mean, **times))
        return self.trials[-1]

    def _iteration(self, n: int) -> tuple[float, float]:
        return self._take(self.curve.rollout(n)), self._take(self.curve.update)

    def _take(self, seconds: float) -> float:
        """Let something take its time; return how long it took [s]."""
        noise = 1 + abs(self._random.gauss(0, 0.02))
        factor = 1.0
        if self.now >= self._begin:
            share = (self._company.most - 1) * self._random.random() ** 3
            factor = self._company.least * (1 + share)
        self.now += seconds * noise * factor
        return seconds * noise * factor


def upwards_mean(machine: Machine) -> int:
    """Double while a size is faster than all smaller ones, each by the mean of one trial."""
    speeds: dict[int, float] = {}
    for n in SIZES:
        speeds[n] = machine.run(n).frames_per_second
        if speeds[n] <= max((speed for size, speed in speeds.items() if size < n), default=0.0):
            break
    return smallest_near_best(speeds)


def upwards_pooled(machine: Machine) -> int:
    """Double while a size is faster than all smaller ones by all trials together, and try a slower one twice."""
    for n in SIZES:
        for _ in range(2):
            machine.run(n)
            speeds = pooled_speeds(machine.trials)
            if speeds[n] > max((speed for size, speed in speeds.items() if size < n), default=0.0):
                break
        else:
            break
    return smallest_near_best(pooled_speeds(machine.trials))


def downwards_pooled(machine: Machine) -> int:
    """Run this project's search."""
    bounds = {"lo": SIZES[0], "hi": SIZES[-1], "granule": 16, "start": SIZES[-1]}
    best = search(machine.run, **bounds, objective=Objective.THROUGHPUT, clock=lambda: machine.now).best
    assert best is not None
    return best.num_envs


METHODS: dict[str, Callable[[Machine], int]] = {
    "upwards, mean": upwards_mean,
    "upwards, pooled": upwards_pooled,
    "downwards, pooled (ours)": downwards_pooled,
}


def outcomes(method: Callable[[Machine], int], company: Company, runs: int) -> tuple[float, float, float, float]:
    """Run a method on all curves.

    Args:
        method: Searches on a machine.
        company: Other programs on it.
        runs: Searches on each curve.

    Returns:
        The share of answers that fail, the share of speed that is lost, trials and seconds, in the mean.
    """
    fails, lost, trials, seconds = [], [], [], []
    for curve in CURVES:
        speeds = {n: curve.speed(n) for n in SIZES}
        for seed in range(runs):
            machine = Machine(curve, company, seed)
            answer = method(machine)
            fails.append(answer < smallest_near_best(speeds) / 2)
            lost.append(1 - speeds[answer] / max(speeds.values()))
            trials.append(len(machine.trials))
            seconds.append(machine.now)
    return statistics.mean(fails), statistics.mean(lost), statistics.mean(trials), statistics.mean(seconds)


def compare_noise(runs: int) -> list[str]:
    """Run all methods beside all kinds of company, and return the report's lines.

    Args:
        runs: Searches on each curve.
    """
    text = (__doc__ or "").split("\n\n", 1)[1].strip()
    lines = [f"## Speed, beside other programs: {len(CURVES)} curves, {runs} searches each", "", text, ""]
    lines += ["|  | method | fail | lost | trials | seconds |", "|---|---|---:|---:|---:|---:|"]
    for company in COMPANIES:
        for name, method in METHODS.items():
            fail, lost, trials, seconds = outcomes(method, company, runs)
            lines.append(f"| {company.name} | {name} | {fail:.1%} | {lost:.1%} | {trials:.1f} | {seconds:.0f} |")
    return lines
