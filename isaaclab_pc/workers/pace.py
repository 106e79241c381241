# SPDX-License-Identifier: BSD-3-Clause
"""The time that a training has left."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["Pace"]


class Pace:
    """Estimates the time left from the mean duration of an iteration.

    The first iteration also compiles kernels and allocates, so it counts only until there is a second one.
    """

    def __init__(self, completed: int, maximum: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin to time the iterations.

        Args:
            completed: Iterations of a resumed run that are already completed.
            maximum: The run's last iteration.
            clock: Monotonic clock [s].
        """
        self._maximum = maximum
        self._first = completed + 1
        self._clock = clock
        self._start = clock()

    def seconds_left(self, completed: int) -> float:
        """Return the time until the last iteration [s]; called once after each iteration, with the completed ones."""
        now = self._clock()
        elapsed = now - self._start
        if completed == self._first:
            self._start = now
        timed = max(completed - self._first, 1)
        return elapsed / timed * (self._maximum - completed)
