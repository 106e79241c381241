# SPDX-License-Identifier: BSD-3-Clause
"""The search for the most environments against the clock, on a simulated GPU; `bench_search.py` writes its table.

A card of 80 GB, of which 0.9 are the budget, and kernels that are compiled. Memory is 1.5 GB, and 3 to 6 MB for each
environment: half of them in steps of 2 MB, as torch's allocator takes it, half in steps of 16 to 128 MB, as buffers do
that grow by blocks. A peak differs by 0.5 % from run to run (standard deviation).

A trial starts in 12 s, builds in 3.5 ms an environment, and iterates in 0.25 ms an environment, at least 1 s, each up
to 10 % more or less. Time counts from when the first environment is built; a trial that is not done in time is ended.

found/true is against the largest size inside the budget. Seconds are those of the whole search, the first build
included. Methods:

- as it was, the baseline: from 1,024, then up to eight times as many; proposals stay 0.3 % below the margin. A trial
  iterates once and then for 5 s more, closes in 5 s, and is expected to take as long as the longest so far.
- ours: from 256. The first iteration counts in the 5 s, nobody waits for the end, and the time of a trial is a line
  over the sizes. Where no other trial can follow, a proposal stays 3 % below the margin.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable

from isaaclab_pc.num_envs.search import Objective, search
from isaaclab_pc.num_envs.search_settings import SearchSettings
from isaaclab_pc.num_envs.trends import MARGIN, capacity, fits_with_margin
from isaaclab_pc.num_envs.trial import Outcome, Trial

BUDGET = int(0.9 * 80e9)
FIXED = 1.5e9
NOISE = 0.005
START_SECONDS = 12.0
MEASURED_SECONDS = 5.0
CLOSING_SECONDS = 5.0
SETTINGS = SearchSettings(device="cuda:0", objective="memory")


class Card:
    """Runs trials on a GPU until the time is up."""

    def __init__(self, seconds: float, seed: int, *, briefly: bool) -> None:
        """Choose a task.

        Args:
            seconds: Time for the search [s].
            seed: Of the task and of the noise.
            briefly: Whether trials end as soon as they may.
        """
        self._briefly = briefly
        self._random = random.Random(seed)
        self._per_env = self._random.uniform(3e6, 6e6)
        self._block = self._random.uniform(16e6, 128e6)
        self._max_seconds = seconds
        self._built_after: float | None = None
        self.now = 0.0
        self.trials: list[Trial] = []

    def peak(self, n: int) -> float:
        """Return the peak of n environments without noise [bytes]."""
        half = self._per_env * n / 2
        return FIXED + sum(math.ceil(half / step) * step for step in (2e6, self._block))

    def largest(self) -> int:
        """Return the largest allowed size that fits."""
        granule = SETTINGS.sizes.granule
        n = int((BUDGET - FIXED) / self._per_env) // granule * granule
        while self.peak(n) > BUDGET:
            n -= granule
        return n

    def run(self, n: int) -> Trial:
        """Run a trial, which ends when it passes the budget or the time is up."""
        peak = self.peak(n) * (1 + self._random.gauss(0, NOISE))
        built, trained = (seconds * self._random.uniform(0.9, 1.1) for seconds in self.seconds(n))
        if self._built_after is None:
            self._built_after = built

        seconds = min(built + trained, self._built_after + self._max_seconds - self.now)
        self.now += seconds
        outcome = Outcome.FITS
        if peak > BUDGET:
            outcome = Outcome.OVER_BUDGET
        elif seconds < built + trained:
            outcome = Outcome.TIMEOUT
        used = min(int(peak), BUDGET)
        self.trials.append(Trial(n, outcome, wall_seconds=seconds, device_bytes=used, device_budget=BUDGET))
        return self.trials[-1]

    def seconds(self, n: int) -> tuple[float, float]:
        """Return how long n environments take until they are built, and from there on [s]."""
        iteration = max(1.0, 0.00025 * n)
        trained = math.ceil(MEASURED_SECONDS / iteration) * iteration
        return START_SECONDS + 0.0035 * n, trained if self._briefly else iteration + trained + CLOSING_SECONDS

    def searched(self) -> float:
        """Return the time of the search so far [s]."""
        return max(self.now - (self._built_after or math.inf), 0.0)


def as_it_was(card: Card, max_seconds: float) -> int:
    """Follow the line through the largest two sizes, as far as the time reaches."""
    granule = SETTINGS.sizes.granule
    upper = math.inf
    size = 1024
    longest = 0.0
    while True:
        began = card.searched()
        trial = card.run(size)
        longest = max(longest, card.searched() - began) if len(card.trials) > 1 else 0.0
        if not fits_with_margin(trial):
            upper = size
        lower = max(t.num_envs for t in card.trials if fits_with_margin(t))
        predicted = min(
            capacity(card.trials, MARGIN + 0.003), 0.98 * upper, (8 if len(card.trials) == 1 else 32) * lower
        )
        if predicted < 1.02 * lower or upper - lower <= granule or max_seconds - card.searched() <= longest:
            return lower
        size = int(predicted) // granule * granule


def ours(card: Card, max_seconds: float) -> int:
    """Run this project's search."""
    best = search(
        card.run,
        **SETTINGS.sizes._asdict(),
        objective=Objective.MEMORY,
        max_seconds=max_seconds,
        clock=card.searched,
    ).best
    assert best is not None
    return best.num_envs


METHODS: dict[str, Callable[[Card, float], int]] = {"as it was": as_it_was, "ours": ours}


def compare_clock(runs: int) -> list[str]:
    """Run both methods with several limits of time, and return the report's lines.

    Args:
        runs: Searches of each.
    """
    text = (__doc__ or "").split("\n\n", 1)[1].strip()
    lines = [f"## Memory, against the clock: {runs} searches each", "", text, ""]
    columns = ("scaling.max_seconds", "method", "below 0.75", "found/true, median", "1st percentile")
    columns += ("budget used, median", "trials, median / worst", "seconds, median / worst")
    lines += [f"| {' | '.join(columns)} |", f"|---:|---|{'---:|' * (len(columns) - 2)}"]
    for max_seconds in (120.0, 180.0, 600.0):
        for name, method in METHODS.items():
            found, used, trials, seconds = [], [], [], []
            for seed in range(runs):
                card = Card(max_seconds, seed, briefly=method is ours)
                answer = method(card, max_seconds)
                found.append(answer / card.largest())
                used.append(card.peak(answer) / BUDGET)
                trials.append(len(card.trials))
                seconds.append(card.now)
            cells = [f"{max_seconds:g}", name, f"{statistics.mean(part < 0.75 for part in found):.1%}"]
            cells += [f"{statistics.median(found):.3f}", f"{statistics.quantiles(found, n=100)[0]:.3f}"]
            cells += [f"{statistics.median(used):.3f}", f"{statistics.median(trials):g} / {max(trials)}"]
            cells += [f"{statistics.median(seconds):.0f} / {max(seconds):.0f}"]
            lines.append(f"| {' | '.join(cells)} |")
    return lines
