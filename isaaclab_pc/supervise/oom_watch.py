# SPDX-License-Identifier: BSD-3-Clause
"""Why memory was lacking: the kernel's count of the processes that it killed, and memory that other programs took."""

import contextlib
from collections import deque

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.num_envs.gpu import Gpu
from isaaclab_pc.num_envs.memory import free_host_memory, memory_cgroups, oom_kills, taken_by_others

RECENT_SECONDS = 45.0
"""Time before a death in which a kill by the kernel explains it [s]: torch elastic gives the other ranks half a minute
to end."""


class OomWatch:
    """Counts the processes that the kernel killed in this process's memory cgroup."""

    def __init__(self, now: float) -> None:
        """Read the kernel's count for the first time, at a monotonic time [s]."""
        self._groups = memory_cgroups()
        self._counts: deque[tuple[float, int]] = deque()
        self.look(now)

    def look(self, now: float) -> int:
        """Read the kernel's count; return the kills of the last :data:`RECENT_SECONDS`."""
        self._counts.append((now, oom_kills(self._groups)))
        while len(self._counts) > 1 and now - self._counts[1][0] >= RECENT_SECONDS:
            self._counts.popleft()
        return self._counts[-1][1] - self._counts[0][1]


class OthersWatch:
    """Measures the memory that other programs take while a process runs."""

    def __init__(self, device: str) -> None:
        """Read the free memory of the host and of ``cuda:N`` before the process starts."""
        self._host_free = free_host_memory()
        self._gpu = None
        self._device_free = 0
        if device != "cpu":
            with contextlib.suppress(ConfigError):
                gpu = Gpu(device, cuda_memory=_without_cuda)
                self._device_free = gpu.free()
                self._gpu = gpu

    def taken(self) -> int:
        """Return the memory of host or GPU that others took, where it is much [bytes]; the process has ended."""
        taken = [(self._host_free - free_host_memory(), self._host_free)]
        if self._gpu is not None:
            with contextlib.suppress(ConfigError):
                taken.append((self._gpu.finish().others, self._device_free))
        return taken_by_others(taken)


def _without_cuda() -> tuple[int, int]:
    """Open no CUDA context: it would be held for as long as a training takes."""
    raise OSError("NVML does not tell")
