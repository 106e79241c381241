# SPDX-License-Identifier: BSD-3-Clause
"""Free memory, threads and cores of a machine."""

import math
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from isaaclab_pc.num_envs.memory import Cgroup, free_host_memory, memory_cgroups


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
    def here(cls, device: str) -> Self:
        """Read the figures of this machine; on ``cuda:N`` that opens a CUDA context."""
        import torch

        # A GPU in the same package as the CPU takes its memory from the machine's.
        shares_memory = device == "cpu" or torch.cuda.get_device_properties(device).is_integrated
        free = free_host_memory() if shares_memory else torch.cuda.mem_get_info(device)[0]
        return cls(free, torch.get_num_threads(), usable_cores())


def usable_cores(groups: list[Cgroup] | None = None, v1_folder: Path = Path("/sys/fs/cgroup/cpu")) -> int:
    """Count the CPU cores that this process may use: the least of its affinity and the cgroups' CPU quotas, rounded up.

    Of ``groups``, those of version 2 are read (None: those under /proc); ``v1_folder`` is the CPU controller of version
    1 as a container sees it.
    """
    groups = memory_cgroups() if groups is None else groups
    quotas = [_quota(group.folder / "cpu.max") for group in groups if group.version == 2]
    quotas.append(_quota(v1_folder / "cpu.cfs_quota_us", v1_folder / "cpu.cfs_period_us"))
    return min(len(os.sched_getaffinity(0)), *quotas)


def _quota(*files: Path) -> int:
    """Return cores from a quota and its period [us]; without a limit the quota is "max" or -1."""
    try:
        quota, period = " ".join(file.read_text() for file in files).split()
        return max(math.ceil(int(quota) / int(period)), 1) if int(quota) > 0 else sys.maxsize
    except (OSError, ValueError):
        return sys.maxsize
