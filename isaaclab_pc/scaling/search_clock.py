# SPDX-License-Identifier: BSD-3-Clause
"""The time of a search. It begins when the first environment is built: kernels may be compiled before."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["FIRST_BUILD_SECONDS", "SearchClock"]

FIRST_BUILD_SECONDS = 900.0
"""Longest time until the first environment of a search is built [s]. On two CPU cores, compiling all kernels was seen
to take 90 s, and for an H200 172 s with the start."""


class SearchClock:
    """Tells how much time is left, before the first environment is built and after that."""

    def __init__(self, max_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with the time for the first build.

        Args:
            max_seconds: Longest time for the search, without the first build [s].
            clock: Monotonic clock [s].
        """
        self._max_seconds = max_seconds
        self._clock = clock
        self._began = clock()
        self._built_at: float | None = None

    @property
    def is_built(self) -> bool:
        """Whether an environment was ever built."""
        return self._built_at is not None

    def built(self) -> None:
        """Begin the time of the search, where it has not begun yet."""
        if self._built_at is None:
            self._built_at = self._clock()

    def build_left(self) -> float | None:
        """Return the time left for the first build [s]; None where it is done."""
        if self.is_built:
            return None
        return max(self._began + FIRST_BUILD_SECONDS - self._clock(), 0.0)

    def spent(self) -> float:
        """Return the time that the search has taken [s]: none before the first build, all where that took too long."""
        if self._built_at is not None:
            return self._clock() - self._built_at
        return 0.0 if self.build_left() else self._max_seconds

    def left(self) -> float:
        """Return the time left for the search [s]."""
        return max(self._max_seconds - self.spent(), 0.0)
