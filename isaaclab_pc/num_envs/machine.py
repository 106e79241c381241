# SPDX-License-Identifier: BSD-3-Clause
"""Free memory, threads and cores of a machine."""

from __future__ import annotations

import math
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from isaaclab_pc.num_envs.memory import Cgroup, free_host_memory, memory_cgroups

__all__ = ["Machine", "usable_cores"]


@dataclass(frozen=True)
class Machine:
    """The machine, as the checks before a run see it."""

    free_bytes: int
    """Free memory of the device that learns [bytes]."""
    threads: int
    """Threads that torch computes with."""
    cores: int
    """CPU cores that this process may use."""

    @classmethod
    def here(cls, device: str) -> Machine:
        """Read the figures of this machine.

        Args:
            device: ``cpu`` or ``cuda:N``; a CUDA context is opened there.
        """
        import torch

        # A GPU in the same package as the CPU takes its memory from the machine's.
        shares_memory = device == "cpu" or torch.cuda.get_device_properties(device).is_integrated
        free = free_host_memory().size if shares_memory else torch.cuda.mem_get_info(device)[0]
        return cls(free, torch.get_num_threads(), usable_cores())


def usable_cores(groups: list[Cgroup] | None = None, v1_folder: Path = Path("/sys/fs/cgroup/cpu")) -> int:
    """Count the CPU cores that this process may use.

    Args:
        groups: cgroups of this process, of which those of version 2 are read; None: found under /proc.
        v1_folder: The CPU controller of cgroup version 1 as a container sees it.

    Returns:
        The smaller of its affinity and of the cgroups' CPU quotas, rounded up; at least 1.
    """
    cores = len(os.sched_getaffinity(0))
    for group in memory_cgroups() if groups is None else groups:
        if group.version == 2:
            cores = min(cores, _quota(_words(group.folder / "cpu.max")))

    return min(cores, _quota(_words(v1_folder / "cpu.cfs_quota_us") + _words(v1_folder / "cpu.cfs_period_us")))


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def _quota(words: list[str]) -> int:
    """Return cores from a quota and its period [us]; without a limit the quota is "max" or -1."""
    if len(words) != 2 or words[0] in ("max", "-1"):
        return sys.maxsize
    return max(math.ceil(int(words[0]) / int(words[1])), 1)
