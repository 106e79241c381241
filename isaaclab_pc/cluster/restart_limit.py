# SPDX-License-Identifier: BSD-3-Clause
"""How often a run may be started again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

WINDOW_SECONDS = 3600.0
"""Time in which ``supervise.max_restarts`` counts [s]; restarts from which nothing came count for longer."""


class RestartLimit:
    """Counts the restarts of the last hour, and those in a row from which nothing came, however long they took."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Start without a restart.

        Args:
            clock: Tells the time [s].
        """
        self._clock = clock
        self._restarts: deque[float] = deque()
        self._in_vain = 0

    def allow(self, max_restarts: int, *, made_progress: bool = True) -> bool:
        """Tell whether another restart stays within so many; it then counts as one of them.

        Args:
            max_restarts: ``supervise.max_restarts``.
            made_progress: Whether something came of what ran since the last restart, as far as it is known.
        """
        now = self._clock()
        if made_progress:
            self._in_vain = 0
        while self._restarts and now - self._restarts[0] > WINDOW_SECONDS:
            self._restarts.popleft()

        if max(len(self._restarts), self._in_vain) >= max_restarts:
            return False
        self._restarts.append(now)
        self._in_vain += 1
        return True
