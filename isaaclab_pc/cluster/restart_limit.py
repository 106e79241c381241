# SPDX-License-Identifier: BSD-3-Clause
"""How often a run may be started again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

WINDOW_SECONDS = 3600.0
"""Time in which ``supervise.max_restarts`` counts [s]."""


class RestartLimit:
    """Counts the restarts of the last hour."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Start without a restart.

        Args:
            clock: Tells the time [s].
        """
        self._clock = clock
        self._restarts: deque[float] = deque()

    def allow(self, max_restarts: int) -> bool:
        """Tell whether another restart stays within so many an hour; it then counts as one of them."""
        now = self._clock()
        while self._restarts and now - self._restarts[0] > WINDOW_SECONDS:
            self._restarts.popleft()

        if len(self._restarts) >= max_restarts:
            return False
        self._restarts.append(now)
        return True
