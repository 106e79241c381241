# SPDX-License-Identifier: BSD-3-Clause
"""Cores under a quota, and free memory of a GPU that shares the machine's."""

from types import SimpleNamespace

import pytest
import torch

from isaaclab_pc.num_envs import machine
from isaaclab_pc.num_envs.machine import Machine, usable_cores
from isaaclab_pc.num_envs.memory import Cgroup, FreeMemory


@pytest.mark.parametrize(("quota", "cores"), [("max 100000", 64), ("250000 100000", 3), ("10000 100000", 1)])
def test_cores_follow_the_quota_of_a_cgroup(tmp_path, monkeypatch, quota: str, cores: int) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(64)))
    (tmp_path / "cpu.max").write_text(f"{quota}\n")
    assert usable_cores([Cgroup(tmp_path, 2)], tmp_path / "none") == cores


@pytest.mark.parametrize(("quota", "cores"), [("-1", 64), ("150000", 2)])
def test_cores_follow_the_quota_of_version_1(tmp_path, monkeypatch, quota: str, cores: int) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(64)))
    (tmp_path / "cpu.cfs_quota_us").write_text(f"{quota}\n")
    (tmp_path / "cpu.cfs_period_us").write_text("100000\n")
    assert usable_cores([], tmp_path) == cores


def test_cores_are_at_most_the_affinity(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {3})
    (tmp_path / "cpu.max").write_text("250000 100000\n")
    assert usable_cores([Cgroup(tmp_path, 2)], tmp_path / "none") == 1


@pytest.mark.parametrize(("is_integrated", "free"), [(0, 5 << 30), (1, 9 << 30)])
def test_a_gpu_that_shares_the_machines_memory_has_what_is_free_there(
    monkeypatch: pytest.MonkeyPatch, is_integrated: int, free: int
) -> None:
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda device: SimpleNamespace(is_integrated=is_integrated)
    )
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (5 << 30, 16 << 30))
    monkeypatch.setattr(machine, "free_host_memory", lambda: FreeMemory(9 << 30, "memory"))
    assert Machine.here("cuda:0").free_bytes == free
