# SPDX-License-Identifier: BSD-3-Clause
"""Whether a living process makes progress, and whether its memory will last. Pure; no clocks, no files."""

import itertools
import math
import statistics
from collections import deque

STARTUP_SECONDS = 1800.0
"""Longest time before the first iteration [s]: on a new machine, kernels of simulator and renderer compile."""

SHORTEST_STALL_SECONDS = 300.0
"""Shortest limit that follows from the iterations [s]: an evaluation or a slow disk is no stall."""

STALL_FACTOR = 20.0
"""The limit is this many times the median iteration."""

RECENT_ITERATIONS = 50
"""Iterations in the median."""


class StallWatch:
    """Tells when a process has made no progress for too long."""

    def __init__(self, timeout: float | None, now: float) -> None:
        """Begin at a monotonic time [s] with a limit [s] for the training; None: it follows the iterations."""
        self._timeout = timeout
        self._last_progress = now
        self._iteration: int | None = None
        self._iteration_at = now
        self._durations: deque[float] = deque(maxlen=RECENT_ITERATIONS)

    def progress(self, iteration: int | None, now: float) -> None:
        """Note a sign of life, with the iterations completed; None while nothing is trained yet."""
        self._last_progress = now
        if iteration is None or iteration == self._iteration:
            return
        if self._iteration is not None and iteration > self._iteration:
            self._durations.append((now - self._iteration_at) / (iteration - self._iteration))
        self._iteration = iteration
        self._iteration_at = now

    @property
    def limit(self) -> float:
        """Longest time without progress now [s]."""
        if not self._durations:
            return max(self._timeout or 0.0, STARTUP_SECONDS)
        if self._timeout is not None:
            return self._timeout
        return max(STALL_FACTOR * statistics.median(self._durations), SHORTEST_STALL_SECONDS)

    def is_stalled(self, now: float) -> bool:
        """Tell whether the last progress is too long ago."""
        return now - self._last_progress > self.limit


class LeakWatch:
    """Tells when memory that grows from iteration to iteration is about to meet its limit."""

    SAMPLES = 20
    """Iterations that a slope needs."""

    WARM_UP = 5
    """First iterations, which allocate lasting buffers."""

    GROWTH = 1.25
    """Memory that has not grown by this factor since the warm-up does not leak, or a restart would not help."""

    LEAD_SECONDS = 180.0
    """Time before the limit is met at which to act [s]: three intervals between checkpoints."""

    def __init__(self) -> None:
        """Begin with nothing seen."""
        self._seen = 0
        self._first: int | None = None
        self._recent: deque[tuple[float, int]] = deque(maxlen=self.SAMPLES)

    def add(self, now: float, size: int) -> None:
        """Note the memory after an iteration [bytes] at a monotonic time [s]."""
        self._seen += 1
        if self._seen <= self.WARM_UP:
            return
        if self._first is None:
            self._first = size
        self._recent.append((now, size))

    def seconds_left(self, limit: int) -> float:
        """Return the time until memory that grows as it did meets a limit [bytes]; inf where it does not leak."""
        if self._first is None or len(self._recent) < self.SAMPLES:
            return math.inf
        size = self._recent[-1][1]
        if size < self.GROWTH * self._first:
            return math.inf

        # A single step up, such as a buffer that grew, has a median slope of 0.
        slope = statistics.median((b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.pairwise(self._recent))
        return max(limit - size, 0) / slope if slope > 0 else math.inf

    def must_act(self, limit: int, seconds_to_end: float) -> bool:
        """Tell whether the limit [bytes] is near, and is met before the run's end [s]."""
        return self.seconds_left(limit) < min(self.LEAD_SECONDS, seconds_to_end)
