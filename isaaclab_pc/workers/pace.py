# SPDX-License-Identifier: BSD-3-Clause
"""The time that a training has left."""

import time
from collections.abc import Callable


class Pace:
    """Estimates the time left from the mean duration of an iteration; the first one, which compiles, only at first."""

    def __init__(self, completed: int, maximum: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin to time the iterations of a run that has completed some already, up to the last one."""
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
