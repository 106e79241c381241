# SPDX-License-Identifier: BSD-3-Clause
"""Whether the kernel has killed something for lack of memory just now, and not hours ago in the same container."""

from __future__ import annotations

from collections import deque

from isaaclab_pc.scaling.memory import memory_cgroups, oom_kills

__all__ = ["OomWatch"]

RECENT_SECONDS = 45.0
"""How long before a death the kernel's count matters [s]: where it takes a rank, torch elastic gives the others half a
minute to end."""


class OomWatch:
    """Reads the kernel's count of processes that it killed in this process's memory cgroup, again and again."""

    def __init__(self, now: float) -> None:
        """Read it for the first time.

        Args:
            now: Time on a monotonic clock [s].
        """
        self._groups = memory_cgroups()
        self._counts: deque[tuple[float, int]] = deque()
        self.look(now)

    def look(self, now: float) -> int:
        """Read it.

        Args:
            now: Time on the same clock [s].

        Returns:
            By how much it has grown lately.
        """
        self._counts.append((now, oom_kills(self._groups)))
        while len(self._counts) > 1 and now - self._counts[1][0] >= RECENT_SECONDS:
            self._counts.popleft()
        return self._counts[-1][1] - self._counts[0][1]
