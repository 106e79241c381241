# SPDX-License-Identifier: BSD-3-Clause
"""Memory and cores that may be used: what is free, the limits of cgroups and of SLURM, and the user's budget."""

import math
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

_UNLIMITED = 1 << 60
"""cgroup v1 writes "no limit" as a number near 2**63."""
_OTHERS_SHARE = 0.02
"""Part of a budget that other programs may take without being named as the reason for a lack of it."""
_V1_CPU = Path("/sys/fs/cgroup/cpu")
"""CPU controller of cgroup v1 as a container sees it."""


@dataclass(frozen=True)
class Cgroup:
    """A memory cgroup of this process, version 1 or 2."""

    folder: Path
    """Where its files are."""
    version: int
    """1 or 2."""

    def free(self) -> int | None:
        """Return the memory left under this group's limit [bytes], or None without a limit."""
        # Above memory.high nothing is killed, but everything is throttled until it all but stands still.
        limit_names, usage_name, cache_name = (
            (("memory.max", "memory.high"), "memory.current", "inactive_file")
            if self.version == 2
            else (("memory.limit_in_bytes",), "memory.usage_in_bytes", "total_inactive_file")
        )
        limit = min((number for number in map(self._number, limit_names) if number is not None), default=_UNLIMITED)
        usage = self._number(usage_name)
        if usage is None or limit >= _UNLIMITED:
            return None
        # File pages that nobody uses count as usage, but the kernel drops them before it kills anything.
        reclaimable = self._counters("memory.stat").get(cache_name, 0)
        return max(limit - max(usage - reclaimable, 0), 0)

    def oom_kills(self) -> int | None:
        """Return how many processes the kernel has killed here for lack of memory; None where it does not tell."""
        return self._counters("memory.events" if self.version == 2 else "memory.oom_control").get("oom_kill")

    def _number(self, name: str) -> int | None:
        try:
            return int((self.folder / name).read_text())
        except (OSError, ValueError):  # not there, or "max"
            return None

    def _counters(self, name: str) -> dict[str, int]:
        try:
            pairs = (line.split() for line in (self.folder / name).read_text().splitlines())
            return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}
        except (OSError, ValueError):
            return {}


def memory_cgroups(proc: Path = Path("/proc/self")) -> list[Cgroup]:
    """Find the memory cgroups of this process, both versions, innermost first: limits apply at every level."""
    try:
        paths = [line.split(":", 2) for line in (proc / "cgroup").read_text().splitlines()]
        mounts = [line.split(" - ", 1) for line in (proc / "mountinfo").read_text().splitlines()]
    except OSError:
        return []

    groups: list[Cgroup] = []
    for _, controllers, path in paths:
        version = 2 if not controllers else 1
        if version == 1 and "memory" not in controllers.split(","):
            continue

        for left, right in mounts:
            kind, _, options = right.split(" ", 2)
            if kind == ("cgroup2" if version == 2 else "cgroup") and (version == 2 or "memory" in options.split(",")):
                root, mount_point = left.split()[3:5]
                groups += [Cgroup(folder, version) for folder in _levels(Path(mount_point), root, path)]
    return groups


def _levels(mount_point: Path, root: str, path: str) -> Iterator[Path]:
    """Yield a group's folder and its parents' up to the mount point, those that exist."""
    # In a container the mount shows only the part of the tree below `root`, and the path may start above it.
    folder = mount_point / path.removeprefix(root).lstrip("/")
    for level in (folder, *folder.parents):
        if level.is_relative_to(mount_point) and level.is_dir():
            yield level


def oom_kills(groups: list[Cgroup]) -> int:
    """Return how many processes the kernel has killed for lack of memory in the innermost group that tells."""
    # The groups around it count other programs, too.
    kills = (group.oom_kills() for group in groups)
    return next((number for number in kills if number is not None), 0)


def free_host_memory() -> int:
    """Return how much host memory new processes can use [bytes].

    It is the least that the machine has left, each cgroup allows, and SLURM allocated without the use of this process.
    """
    limits = [psutil.virtual_memory().available]
    limits += [size for group in memory_cgroups() if (size := group.free()) is not None]
    allocated = _slurm_allocation()
    if allocated is not None:
        limits.append(max(allocated - psutil.Process().memory_info().rss, 0))
    return min(limits)


def _slurm_allocation() -> int | None:
    """Return the memory SLURM gave this job on this node [bytes], or None when it set none (0 means all)."""
    try:
        megabytes = int(os.environ.get("SLURM_MEM_PER_NODE", 0))
        if not megabytes:
            megabytes = int(os.environ.get("SLURM_MEM_PER_CPU", 0)) * int(os.environ.get("SLURM_CPUS_ON_NODE", 1))
    except ValueError:
        return None
    return megabytes * 2**20 or None


def free_memory(device: str) -> int:
    """Return the free memory of the device that learns [bytes]; on ``cuda:N`` that opens a CUDA context."""
    import torch

    # A GPU in the same package as the CPU takes its memory from the machine's.
    shares_memory = device == "cpu" or torch.cuda.get_device_properties(device).is_integrated
    return free_host_memory() if shares_memory else torch.cuda.mem_get_info(device)[0]


def usable_cores() -> int:
    """Count the CPU cores of this process: the least of its affinity and the cgroups' CPU quotas, rounded up."""
    quotas = [_quota(group.folder / "cpu.max") for group in memory_cgroups() if group.version == 2]
    quotas.append(_quota(_V1_CPU / "cpu.cfs_quota_us", _V1_CPU / "cpu.cfs_period_us"))
    return min(len(os.sched_getaffinity(0)), *quotas)


def _quota(*files: Path) -> int:
    """Return cores from a quota and its period [us]; without a limit the quota is "max" or -1."""
    try:
        quota, period = " ".join(file.read_text() for file in files).split()
        return max(math.ceil(int(quota) / int(period)), 1) if int(quota) > 0 else sys.maxsize
    except (OSError, ValueError):
        return sys.maxsize


def resolve_budget(budget: float | int, free: int) -> int:
    """Turn a budget of `parse_budget` into bytes, never more than those that are free."""
    return int(budget * free) if isinstance(budget, float) else min(budget, free)


def taken_by_others(taken: Iterable[tuple[int, int]]) -> int:
    """Return the most memory that others took [bytes], given each amount with its budget; 0 where all are small."""
    return max((size for size, budget in taken if size > _OTHERS_SHARE * budget), default=0)
