# SPDX-License-Identifier: BSD-3-Clause
"""Searches for the largest number of environments: this project's and its peers', on the same synthetic curves.

    python benchmarks/bench_search.py --out benchmarks/results/search.md

compares searches on synthetic curves: each curve is peak memory over the number of environments, or another cause that
ends a trial, scaled so that trials fail above the limit. Limits are spread evenly over the logarithm from 17 to 60,000.
Sizes go from 32 to 65,536; ours and doubling + bisection take multiples of 32. Peers reimplement their published
algorithms:

- doubling + bisection: double from the smallest size until a trial fails, then bisect to the granule.
- Lightning power, binsearch: `BatchSizeFinder` of PyTorch Lightning (lightning/pytorch/tuner/batch_size_scaling.py),
  init_val=2 and max_trials=25 (its defaults), max_val=65,536. Power answers half the size that failed. Binsearch, since
  Lightning 2.6, answers its largest size less a margin of 5 %, which it has not tried.
- accelerate: `find_executable_batch_size` of Hugging Face Accelerate (accelerate/utils/memory.py), from the largest
  size. Older releases halve it after a failure, newer ones multiply it by 0.9 (their default `reduce_batch_size_fn`).
- linear autotune: `--autotune` of Isaac Lab's scripts/benchmarks/benchmark_cameras.py, a step of 25 more at each trial,
  its default; it answers the first size past the limit.

found/true is against the largest multiple of 32 that fits, and against the largest that also leaves our margin free;
an answer that does not fit counts as 0, and limits below 32 are left out. An answer is untested when no trial of that
size ran and fitted. Refits is the share of 20 more runs in which an answer on the noisy curve fits. Trials and failing
trials (out of memory, crash or hang) are median / worst; environments tried is the mean sum of sizes.
"""

from __future__ import annotations

import argparse
import functools
import math
import random
import shlex
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from isaaclab_pc.num_envs.search import Objective, search
from isaaclab_pc.num_envs.trends import MARGIN
from isaaclab_pc.num_envs.trial import Outcome, Trial

LO = 32
HI = 65_536
GRANULE = 32
BUDGET = 20 << 30
FIXED = 0.1
"""Part of the budget that is used before the first environment."""
NOISE = 0.005
"""Standard deviation of the peaks of one size on the noisy curve, as a part of the peak."""


def next_power(n: float) -> float:
    """Return the smallest power of two that is not smaller."""
    return 2.0 ** math.ceil(math.log2(max(n, 1)))


@dataclass(frozen=True)
class Curve:
    """How memory grows with the number of environments n, given the limit."""

    name: str
    """What the table calls it."""
    grow: Callable[[float, float], float] = lambda n, limit: n
    """Memory of n environments in any unit; what it is at the limit is the budget."""
    fixed: float = FIXED
    """Part of the budget used before the first environment."""
    failure: Outcome = Outcome.OVER_BUDGET
    """How a trial beyond the limit ends."""
    headroom: float = 1.0
    """How many times the limit the memory model alone would allow."""
    noise: float = 0.0
    """Standard deviation as a part of the peak."""


CURVES = (
    Curve("affine"),
    Curve("large fixed cost", fixed=0.7),
    Curve("noisy", noise=NOISE),
    Curve("superlinear", lambda n, limit: n + 4 * n * n / limit),
    Curve("sublinear", lambda n, limit: n**0.7),
    Curve("jump", lambda n, limit: n + 0.5 * next_power(n)),
    Curve("plateau", lambda n, limit: math.ceil(n / max(limit / 8, GRANULE)) * max(limit / 8, GRANULE)),
    Curve("not monotone", lambda n, limit: n * (1 + 0.02 * math.sin(n / 50))),
    Curve("crash", failure=Outcome.CRASH, headroom=3.0),
    Curve("hang", failure=Outcome.TIMEOUT, headroom=100.0),
    Curve("kill", failure=Outcome.OOM, headroom=1.3),
)


@dataclass
class Machine:
    """Runs trials of a curve, and counts them."""

    curve: Curve
    limit: int
    seed: int = 0
    fps: Callable[[int], float] = float
    trials: list[Trial] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Start the noise."""
        self.random = random.Random(f"{self.curve.name} {self.limit} {self.seed}")

    def peak(self, n: int) -> float:
        """Return the peak of n environments without noise [bytes]."""
        share = self.curve.grow(n, self.limit) / self.curve.grow(self.limit, self.limit) / self.curve.headroom
        return BUDGET * (self.curve.fixed + (1 - self.curve.fixed) * share)

    def fits(self, n: int, margin: float = 0.0) -> bool:
        """Tell whether n environments fit when there is no noise."""
        if self.curve.headroom > 1 and n > self.limit:
            return False
        return self.peak(n) <= (1 - margin) * BUDGET * (1 + 1e-9)

    def run(self, n: int) -> Trial:
        """Run a trial with noise."""
        peak = int(self.peak(n) * (1 + self.random.gauss(0, self.curve.noise)))
        beyond = self.curve.headroom > 1 and n > self.limit
        if beyond or peak > BUDGET * (1 + 1e-9):
            return Trial(n, self.curve.failure, host_bytes=min(peak, BUDGET), host_budget=BUDGET)
        return Trial(n, Outcome.FITS, self.fps(n), host_bytes=peak, host_budget=BUDGET)

    def probe(self, n: int) -> Trial:
        """Run a trial and keep it."""
        self.trials.append(self.run(n))
        return self.trials[-1]

    def largest(self, margin: float = 0.0) -> int:
        """Return the largest allowed size that fits; 0 when none does."""
        return _largest(self.curve, self.limit, margin)


@functools.cache
def _largest(curve: Curve, limit: int, margin: float) -> int:
    machine = Machine(curve, limit)
    return max((n for n in range(GRANULE, HI + 1, GRANULE) if machine.fits(n, margin)), default=0)


def limits(count: int) -> list[int]:
    """Return limits from 17 to 60,000, evenly spread over the logarithm."""
    return [round(17 * (60_000 / 17) ** (i / (count - 1))) for i in range(count)]


def ours(machine: Machine) -> int | None:
    """Run this project's search."""
    best = search(machine.probe, lo=LO, hi=HI, granule=GRANULE, objective=Objective.MEMORY).best
    return None if best is None else best.num_envs


def double_and_bisect(machine: Machine) -> int | None:
    """Double from the smallest size until a trial fails, then bisect to the granule."""
    good = 0
    bad = LO
    while bad <= HI and machine.probe(bad).fits:
        good = bad
        bad = 2 * bad

    while bad - good > GRANULE:
        if good == 0 or good == HI:
            break
        middle = (good + bad) // 2 // GRANULE * GRANULE
        if machine.probe(middle).fits:
            good = middle
        else:
            bad = middle
    return good or None


def lightning_power(machine: Machine) -> int | None:
    """Double until a trial fails, halve, and answer; halve further only when nothing has fitted."""
    size = 2
    succeeded = False
    for _ in range(25):
        if machine.probe(size).fits:
            if size >= HI:
                break
            size = min(2 * size, HI)
            succeeded = True
        else:
            size //= 2
            if succeeded or size == 0:
                break
    return size or None


def lightning_binsearch(machine: Machine) -> int | None:
    """Double until a trial fails, then bisect to one; answer the largest that fitted less 5 %."""
    low = 1
    high = None
    size = 2
    successes = 0
    while True:
        if machine.probe(size).fits:
            successes += 1
            if successes > 25:
                break
            low = size
            if high is not None and high - low <= 1:
                break
            if high is None and size >= HI:
                break
            size = 2 * size if high is None else (high + low) // 2
        else:
            high = size
            size = (high + low) // 2
            if high - low <= 1:
                break
    return max(int(size * 0.95), 1)


def accelerate(machine: Machine, shrink: Callable[[int], int]) -> int | None:
    """Shrink from the largest size until a trial fits."""
    size = HI
    while size and not machine.probe(size).fits:
        size = shrink(size)
    return size or None


def linear_autotune(machine: Machine) -> int | None:
    """Add 25 until a trial fails, and answer the size that failed."""
    size = 1
    while machine.probe(size).fits and size <= HI:
        size += 25
    return size


METHODS: dict[str, Callable[[Machine], int | None]] = {
    "ours": ours,
    "doubling + bisection": double_and_bisect,
    "Lightning power": lightning_power,
    "Lightning binsearch": lightning_binsearch,
    "accelerate, halving": functools.partial(accelerate, shrink=lambda n: n // 2),
    "accelerate, times 0.9": functools.partial(accelerate, shrink=lambda n: int(n * 0.9)),
    "linear autotune": linear_autotune,
}


@dataclass
class Score:
    """What a method did over all limits of some curves."""

    trials: list[int] = field(default_factory=list)
    """Trials of each search."""
    failing: list[int] = field(default_factory=list)
    """Trials of each search that did not fit."""
    tried: list[int] = field(default_factory=list)
    """Sum of the sizes of each search."""
    found: list[float] = field(default_factory=list)
    """Answers as parts of the largest size that fits."""
    with_margin: list[float] = field(default_factory=list)
    """Answers as parts of the largest size that leaves the margin."""
    untested: list[bool] = field(default_factory=list)
    """Whether each answer is a size that did not run and fit."""
    refits: list[bool] = field(default_factory=list)
    """Whether answers on curves with noise fit again."""

    def add(self, machine: Machine, answer: int | None) -> None:
        """Add a search that has ended."""
        self.trials.append(len(machine.trials))
        self.failing.append(sum(not trial.fits for trial in machine.trials))
        self.tried.append(sum(trial.num_envs for trial in machine.trials))
        fitted = {trial.num_envs for trial in machine.trials if trial.fits}
        self.untested.append(answer is not None and answer not in fitted)
        worth = answer if answer is not None and machine.fits(answer) else 0
        for found, largest in ((self.found, machine.largest()), (self.with_margin, machine.largest(MARGIN))):
            if largest:
                found.append(worth / largest)
        if machine.curve.noise and answer is not None:
            self.refits += [machine.run(answer).fits for _ in range(20)]

    def row(self, name: str, *, brief: bool = False) -> str:
        """Return a row of the table."""
        median = statistics.median
        cells = [
            name,
            f"{median(self.trials):g} / {max(self.trials):,}",
            f"{median(self.failing):g} / {max(self.failing):,}",
            f"{statistics.mean(self.tried):,.0f}",
            f"{median(self.found):.3f}",
            f"{median(self.with_margin):.3f}",
        ]
        if not brief:
            cells += [f"{statistics.mean(self.untested):.0%}", f"{statistics.mean(self.refits):.1%}"]
        return f"| {' | '.join(cells)} |"


HEADER = ("trials", "failing trials", "environments tried", "found/true", "found/true with margin")


def table_head(*columns: str) -> list[str]:
    """Return the first two lines of a Markdown table."""
    return [f"| {' | '.join(columns)} |", f"|---|{'---:|' * (len(columns) - 1)}"]


def compare(count: int) -> list[str]:
    """Run all methods on all curves and limits, and return the report's lines."""
    scores = {name: Score() for name in METHODS}
    by_curve = {curve.name: Score() for curve in CURVES}
    for curve in CURVES:
        for limit in limits(count):
            for name, method in METHODS.items():
                machine = Machine(curve, limit)
                answer = method(machine)
                scores[name].add(machine, answer)
                if name == "ours":
                    by_curve[curve.name].add(machine, answer)

    lines = [f"## All methods, {len(CURVES)} curves, {count} limits each", ""]
    lines += table_head("", *HEADER, "untested answers", "refits, noisy curve")
    lines += [score.row(name) for name, score in scores.items()]
    lines += ["", "## Ours, by curve", ""]
    lines += table_head("", *HEADER)
    lines += [score.row(name, brief=True) for name, score in by_curve.items()]
    return lines


def main() -> None:
    """Print the report, and write it."""
    from benchmarks.bench_search_clock import compare_clock
    from benchmarks.bench_search_noise import compare_noise

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limits", type=int, default=100, help="limits for each curve")
    parser.add_argument("--runs", type=int, default=300, help="searches of each kind with noise and against the clock")
    parser.add_argument("--out", type=Path, help="write the report to this Markdown file as well")
    args = parser.parse_args()
    if args.limits < 2 or args.runs < 2:
        parser.error("--limits and --runs must be at least 2")
    command = shlex.join(["python", "benchmarks/bench_search.py", *sys.argv[1:]])
    text = (__doc__ or "").split("\n\n", 2)[2].strip()
    lines = ["# Search for the number of environments", "", f"    {command}", "", text, "", *compare(args.limits)]
    lines += ["", *compare_clock(args.runs), "", *compare_noise(args.runs)]
    report = "\n".join(lines)
    print(report)
    if args.out is not None:
        args.out.write_text(f"{report}\n", encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    main()
