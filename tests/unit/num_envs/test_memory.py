# SPDX-License-Identifier: BSD-3-Clause
"""Memory and cores of the machine: cgroups of both versions, SLURM, GPUs that share it, and budgets."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import torch

from isaaclab_pc.num_envs import memory
from isaaclab_pc.num_envs.memory import (
    Cgroup,
    free_host_memory,
    free_memory,
    memory_cgroups,
    oom_kills,
    resolve_budget,
    usable_cores,
)

GIB = 1 << 30


def write(folder: Path, **files: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(f"{content}\n")
    return folder


def fake_proc(folder: Path, cgroup: str, *mounts: str) -> Path:
    return write(folder, cgroup=cgroup, mountinfo="\n".join(mounts))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Set the cgroups, the memory that is available, and SLURM's variables."""

    def has(groups: list[Cgroup], available: int, **environment: str) -> None:
        monkeypatch.setattr(memory, "memory_cgroups", lambda: groups)
        monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=available))
        for name in ("SLURM_MEM_PER_NODE", "SLURM_MEM_PER_CPU", "SLURM_CPUS_ON_NODE"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)

    return has


@pytest.fixture
def v2(tmp_path: Path) -> tuple[Path, Path]:
    """A job's cgroup of version 2, limited at two levels, and the process folder that names it."""
    root = write(tmp_path / "cgroup", memory__stat="")
    write(root / "job", memory__max=8 * GIB, memory__current=3 * GIB, memory__stat=f"anon 1\ninactive_file {GIB}")
    write(
        root / "job/step",
        memory__max="max",
        memory__current=2 * GIB,
        memory__stat="inactive_file 0",
        memory__events="oom 3\noom_kill 2",
    )
    proc = fake_proc(
        tmp_path / "proc",
        "0::/job/step",
        f"30 23 0:26 / {root} rw,nosuid shared:9 - cgroup2 cgroup2 rw,memory_recursiveprot",
        "31 23 0:27 / /tmp rw - tmpfs tmpfs rw",
    )
    return root, proc


def test_limits_of_an_outer_group_count_and_file_cache_does_not(machine: Callable, v2: tuple[Path, Path]) -> None:
    root, proc = v2
    groups = memory_cgroups(proc)
    assert [group.folder for group in groups] == [root / "job/step", root / "job", root]
    assert [group.free() for group in groups] == [None, 6 * GIB, None]
    machine(groups, 20 * GIB)
    assert free_host_memory() == 6 * GIB
    machine(groups, 5 * GIB)
    assert free_host_memory() == 5 * GIB
    write(root / "job", memory__high=5 * GIB)
    machine(groups, 20 * GIB)
    assert free_host_memory() == 3 * GIB


@pytest.mark.parametrize(
    ("high", "most", "free"),
    [
        ("max", 8 * GIB, 6 * GIB),
        (4 * GIB, "max", 2 * GIB),
        (12 * GIB, 8 * GIB, 6 * GIB),
        (1 * GIB, 8 * GIB, 0),
        (0, "max", 0),
        ("max", "max", None),
    ],
)
def test_the_lower_of_both_limits_counts(tmp_path: Path, high: object, most: object, free: int | None) -> None:
    stat = f"inactive_file {GIB}"
    folder = write(tmp_path, memory__high=high, memory__max=most, memory__current=3 * GIB, memory__stat=stat)
    assert Cgroup(folder, 2).free() == free


def test_kills_are_those_of_the_innermost_group_that_tells(v2: tuple[Path, Path]) -> None:
    root, proc = v2
    write(root / "job", memory__events="oom_kill 7")
    assert oom_kills(memory_cgroups(proc)) == 2
    (root / "job/step/memory.events").unlink()
    assert oom_kills(memory_cgroups(proc)) == 7
    assert oom_kills([]) == 0


def test_version_1_group_is_found_beside_an_empty_version_2_tree(machine: Callable, tmp_path: Path) -> None:
    mount = tmp_path / "memory"
    write(
        mount / "jobs/7",
        memory__limit_in_bytes=4 * GIB,
        memory__usage_in_bytes=2 * GIB,
        memory__stat=f"inactive_file 1\ntotal_inactive_file {GIB // 2}",
        memory__oom_control="oom_kill_disable 0\nunder_oom 0\noom_kill 5",
    )
    write(mount / "jobs", memory__limit_in_bytes=9223372036854771712, memory__usage_in_bytes=2 * GIB, memory__stat="")
    unified = write(tmp_path / "unified")
    proc = fake_proc(
        tmp_path / "proc",
        "9:cpuset:/\n4:memory:/jobs/7\n0::/",
        f"35 31 0:32 / {mount} rw,relatime - cgroup cgroup rw,memory",
        f"33 31 0:30 / {tmp_path} rw,relatime - cgroup cgroup rw,cpuset",
        f"41 31 0:38 / {unified} rw,relatime - cgroup2 cgroup2 rw",
    )
    groups = memory_cgroups(proc)
    assert Cgroup(mount / "jobs/7", 1) in groups
    machine(groups, 20 * GIB)
    assert free_host_memory() == 5 * GIB // 2
    assert oom_kills(groups) == 5


def test_container_whose_mount_shows_only_its_own_group_is_understood(tmp_path: Path) -> None:
    mount = write(tmp_path / "memory", memory__limit_in_bytes=GIB, memory__usage_in_bytes=0, memory__stat="")
    line = f"35 31 0:32 /docker/abc {mount} ro - cgroup cgroup rw,memory"
    inside = fake_proc(tmp_path / "proc", "4:memory:/docker/abc", line)
    assert [group.folder for group in memory_cgroups(inside)] == [mount]
    outside = fake_proc(tmp_path / "proc2", "4:memory:/", line)
    assert [group.folder for group in memory_cgroups(outside)] == [mount]


@pytest.mark.parametrize(
    "environment",
    [
        {"SLURM_MEM_PER_NODE": "4096"},
        {"SLURM_MEM_PER_CPU": "1024", "SLURM_CPUS_ON_NODE": "4"},
        {"SLURM_MEM_PER_NODE": "0", "SLURM_MEM_PER_CPU": "4096"},
    ],
)
def test_slurm_allocation_less_what_this_process_uses_is_free(machine: Callable, environment: dict[str, str]) -> None:
    machine([], 64 * GIB, **environment)
    assert free_host_memory() == pytest.approx(4 * GIB - psutil.Process().memory_info().rss, abs=64 << 20)


@pytest.mark.parametrize("environment", [{}, {"SLURM_MEM_PER_NODE": "0"}, {"SLURM_MEM_PER_NODE": "4G"}])
def test_without_a_limit_all_that_is_available_is_free(
    machine: Callable, environment: dict[str, str], tmp_path: Path
) -> None:
    assert 0 < free_host_memory() <= psutil.virtual_memory().total
    assert memory_cgroups(tmp_path / "no-such-process") == []
    machine([], GIB, **environment)
    assert free_host_memory() == GIB


def test_budget_is_never_more_than_what_is_free() -> None:
    assert resolve_budget(0.5, 8 * GIB) == 4 * GIB
    assert resolve_budget(2 * GIB, 8 * GIB) == 2 * GIB
    assert resolve_budget(20 * GIB, 8 * GIB) == 8 * GIB


@pytest.mark.parametrize(
    ("allowed", "files", "cores"),
    [
        (64, {"cpu.max": "max 100000"}, 64),
        (64, {"cpu.max": "250000 100000"}, 3),
        (64, {"cpu.max": "10000 100000"}, 1),
        (1, {"cpu.max": "250000 100000"}, 1),
        # Version 1.
        (64, {"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"}, 64),
        (64, {"cpu.cfs_quota_us": "150000", "cpu.cfs_period_us": "100000"}, 2),
    ],
)
def test_usable_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowed: int, files: dict[str, str], cores: int
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(allowed)))
    for name, text in files.items():
        (tmp_path / name).write_text(f"{text}\n")
    monkeypatch.setattr(memory, "memory_cgroups", lambda: [Cgroup(tmp_path, 2)])
    monkeypatch.setattr(memory, "_V1_CPU", tmp_path)
    assert usable_cores() == cores


@pytest.mark.parametrize(("is_integrated", "free"), [(0, 5 << 30), (1, 9 << 30)])
def test_free_memory_of_a_gpu(monkeypatch: pytest.MonkeyPatch, is_integrated: int, free: int) -> None:
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda device: SimpleNamespace(is_integrated=is_integrated)
    )
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (5 << 30, 16 << 30))
    monkeypatch.setattr(memory, "free_host_memory", lambda: 9 << 30)
    assert free_memory("cuda:0") == free
