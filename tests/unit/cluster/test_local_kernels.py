# SPDX-License-Identifier: BSD-3-Clause
"""Compiled kernels travel to the node's disk and back, and the shared cache loses none."""

import multiprocessing
import os
from pathlib import Path

import pytest

from isaaclab_pc.cluster import local_kernels
from isaaclab_pc.cluster.local_kernels import local_kernel_cache
from tests.unit.kernel_files import WARP, content, make_shared_cache, write


@pytest.fixture
def shared(tmp_path, monkeypatch):
    return make_shared_cache(tmp_path, monkeypatch)


def test_a_job_begins_with_what_is_shared_and_adds_what_it_compiled(shared, tmp_path):
    before = content(shared)
    with local_kernel_cache():
        local = Path(os.environ["WARP_CACHE_PATH"]) / WARP
        assert local.is_relative_to(tmp_path / "disk")
        assert content(local) == before
        write(local / "wp_new_2b" / "wp_new_2b.sm90.cubin", "new")
        write(local / "wp_old_1a" / "wp_old_1a.sm90.cubin", "other")
        write(local / "lto" / "ab" / "ab.lto", "linked")
        write(local / "wp_half_3c_p17_t18" / "wp_half_3c.cu", "not finished")
        # Nothing that is shared is ever changed.
        write(local / "wp_old_1a" / "wp_old_1a.sm80.cubin", "damaged")
        (local / "wp_old_1a" / "wp_old_1a.meta").unlink()
        assert content(shared) == before

    assert content(shared) == {
        **before,
        "wp_new_2b/wp_new_2b.sm90.cubin": "new",
        "wp_old_1a/wp_old_1a.sm90.cubin": "other",
        "lto/ab/ab.lto": "linked",
    }
    assert list((tmp_path / "disk").iterdir()) == []
    assert os.environ["WARP_CACHE_PATH"] == str(tmp_path / "shared")


def test_the_first_job_makes_the_shared_cache_even_if_it_is_stopped(tmp_path, monkeypatch):
    monkeypatch.delenv("WARP_CACHE_PATH", raising=False)
    monkeypatch.delenv("SLURM_TMPDIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def stopped() -> None:
        with local_kernel_cache():
            write(Path(os.environ["WARP_CACHE_PATH"]) / WARP / "wp_new_2b" / "a.ptx", "new")
            raise SystemExit(143)

    with pytest.raises(SystemExit):
        stopped()
    assert "WARP_CACHE_PATH" not in os.environ
    assert content(tmp_path / "warp" / WARP) == {"wp_new_2b/a.ptx": "new"}


def test_a_shared_cache_that_cannot_be_written_costs_a_warning(shared, tmp_path, capfd, monkeypatch):
    def full(source, goal):
        raise OSError(28, "No space left on device", str(goal))

    monkeypatch.setattr(local_kernels.shutil, "copy2", full)
    monkeypatch.setattr(local_kernels.shutil, "copytree", lambda source, goal, **_: full(source, goal))
    with local_kernel_cache():
        write(Path(os.environ["WARP_CACHE_PATH"]) / WARP / "wp_new_2b" / "a.ptx", "new")
    warnings = capfd.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in warnings] == ["warning", "warning"]
    assert os.strerror(28) in warnings[1]
    assert sorted(path.name for path in shared.iterdir()) == ["wp_old_1a"]


def one_node(number: int) -> None:
    with local_kernel_cache():
        local = Path(os.environ["WARP_CACHE_PATH"]) / WARP
        for module in range(20):
            for part in ("a.ptx", "a.meta"):
                write(local / f"wp_m{module}" / part, f"{module} {part}")
            write(local / f"wp_m{module}" / f"b{number}.ptx", str(number))


def test_many_nodes_that_copy_back_at_once_leave_whole_entries(shared):
    with multiprocessing.get_context("fork").Pool(4) as pool:
        pool.map(one_node, range(8))
    found = content(shared)
    for module in range(20):
        assert found[f"wp_m{module}/a.ptx"] == f"{module} a.ptx"
        assert found[f"wp_m{module}/a.meta"] == f"{module} a.meta"
    assert not [name for name in found if name.startswith(".") or "/." in name]
