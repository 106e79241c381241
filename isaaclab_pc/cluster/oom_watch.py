# SPDX-License-Identifier: BSD-3-Clause
"""Who took the memory that a process lacked: the kernel's count of those that it killed for it, and other programs."""

from __future__ import annotations

import contextlib
from collections import deque

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.scaling.gpu import Gpu
from isaaclab_pc.scaling.memory import free_host_memory, memory_cgroups, oom_kills

__all__ = ["OomWatch", "OthersWatch"]

RECENT_SECONDS = 45.0
"""How long before a death the kernel's count matters [s]: where it takes a rank, torch elastic gives the others half a
minute to end."""


_OTHERS_SHARE = 0.02
"""Part of the memory that was free at the start that others may take without being the reason for a lack of it."""


class OthersWatch:
    """Tells what other programs took while a process ran, of the memory that it lacked."""

    def __init__(self, device: str) -> None:
        """Read what is free before the process starts.

        Args:
            device: ``cpu`` or ``cuda:N``, of this machine.
        """
        self._host_free = free_host_memory().size
        self._gpu = None
        self._device_free = 0
        if device != "cpu":
            try:
                self._gpu = Gpu(device, cuda_memory=_nobody_asks)
                self._device_free = self._gpu.free()
            except ConfigError:
                self._gpu = None

    def taken(self) -> int:
        """Return what others took since then, of the host or the GPU, where it is much [bytes].

        To be called once the process has ended: what it had is free again.
        """
        taken = [(self._host_free - free_host_memory().size, self._host_free)]
        if self._gpu is not None:
            with contextlib.suppress(ConfigError):
                taken.append((self._gpu.finish().others, self._device_free))
        return max((size for size, free in taken if size > _OTHERS_SHARE * free), default=0)


def _nobody_asks() -> tuple[int, int]:
    """Open no CUDA context for as long as a training takes."""
    raise OSError("NVML does not tell")


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
