# SPDX-License-Identifier: BSD-3-Clause
"""Compiled kernels travel to the node's disk and back, and the shared cache loses none."""

import multiprocessing
import os
import shutil
import tempfile
from importlib import metadata
from pathlib import Path

import pytest

from isaaclab_pc.cluster import kernel_cache
from isaaclab_pc.cluster.kernel_cache import (
    announce_first_start,
    check_kernel_cache,
    local_kernel_cache,
    shared_kernel_cache,
)
from isaaclab_pc.errors import ConfigError

WARP = metadata.version("warp-lang")


@pytest.fixture
def shared(tmp_path, monkeypatch):
    """A shared cache with one module, and a node with a disk of its own."""
    monkeypatch.setenv("WARP_CACHE_PATH", str(tmp_path / "shared"))
    (tmp_path / "disk").mkdir()
    monkeypatch.setenv("SLURM_TMPDIR", str(tmp_path / "disk"))
    folder = tmp_path / "shared" / WARP
    write(folder / "wp_old_1a" / "wp_old_1a.sm80.cubin", "old")
    write(folder / "wp_old_1a" / "wp_old_1a.meta", "{}")
    return folder


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def content(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.is_file()
    }


def test_a_job_begins_with_what_is_shared_and_gives_back_what_it_compiled(shared, tmp_path):
    before = content(shared)
    with local_kernel_cache():
        local = Path(os.environ["WARP_CACHE_PATH"]) / WARP
        assert local.is_relative_to(tmp_path / "disk")
        assert content(local) == before
        write(local / "wp_new_2b" / "wp_new_2b.sm90.cubin", "new")
        write(local / "wp_old_1a" / "wp_old_1a.sm90.cubin", "for another GPU")
        write(local / "lto" / "ab" / "ab.lto", "linked")
        write(local / "wp_half_3c_p17_t18" / "wp_half_3c.cu", "not finished")
        assert content(shared) == before

    assert content(shared) == {
        **before,
        "wp_new_2b/wp_new_2b.sm90.cubin": "new",
        "wp_old_1a/wp_old_1a.sm90.cubin": "for another GPU",
        "lto/ab/ab.lto": "linked",
    }
    assert list((tmp_path / "disk").iterdir()) == []
    assert os.environ["WARP_CACHE_PATH"] == str(tmp_path / "shared")


def test_what_is_shared_is_never_changed(shared):
    with local_kernel_cache():
        local = Path(os.environ["WARP_CACHE_PATH"]) / WARP
        write(local / "wp_old_1a" / "wp_old_1a.sm80.cubin", "damaged")
        (local / "wp_old_1a" / "wp_old_1a.meta").unlink()
    assert content(shared) == {"wp_old_1a/wp_old_1a.sm80.cubin": "old", "wp_old_1a/wp_old_1a.meta": "{}"}


def test_the_first_job_makes_the_shared_cache(tmp_path, monkeypatch):
    monkeypatch.delenv("WARP_CACHE_PATH", raising=False)
    monkeypatch.delenv("SLURM_TMPDIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with local_kernel_cache():
        write(Path(os.environ["WARP_CACHE_PATH"]) / WARP / "wp_new_2b" / "a.ptx", "new")
    assert "WARP_CACHE_PATH" not in os.environ
    assert content(tmp_path / "warp" / WARP) == {"wp_new_2b/a.ptx": "new"}


def test_a_shared_cache_that_cannot_be_written_costs_a_warning(shared, tmp_path, capfd, monkeypatch):
    def full(source, goal):
        raise OSError(28, "No space left on device", str(goal))

    monkeypatch.setattr(kernel_cache.shutil, "copy2", full)
    monkeypatch.setattr(kernel_cache.shutil, "copytree", lambda source, goal, **_: full(source, goal))
    with local_kernel_cache():
        write(Path(os.environ["WARP_CACHE_PATH"]) / WARP / "wp_new_2b" / "a.ptx", "new")
    warnings = capfd.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in warnings] == ["warning", "warning"]
    assert "No space left on device" in warnings[1]
    assert sorted(path.name for path in shared.iterdir()) == ["wp_old_1a"]


def test_what_a_stopped_job_compiled_is_kept(shared):
    def stopped() -> None:
        with local_kernel_cache():
            write(Path(os.environ["WARP_CACHE_PATH"]) / WARP / "wp_new_2b" / "a.ptx", "new")
            raise SystemExit(143)

    with pytest.raises(SystemExit):
        stopped()
    assert "wp_new_2b/a.ptx" in content(shared)


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


def test_where_warp_keeps_its_kernels():
    import warp

    assert shared_kernel_cache({"XDG_CACHE_HOME": "/cache"}) == Path("/cache/warp")
    assert shared_kernel_cache({"WARP_CACHE_PATH": "/a", "XDG_CACHE_HOME": "/cache"}) == Path("/a")
    assert shared_kernel_cache({}) == Path.home() / ".cache" / "warp"
    assert warp.config.version == WARP


@pytest.mark.parametrize(
    ("device", "compiled", "announced"),
    [
        ("cpu", None, "cpu"),
        ("cpu", "wp_a/a.cpu1.o", None),
        ("cuda:1", "wp_a/a.cpu1.o", "cuda"),
        ("cuda:1", "wp_a/a.sm90.cubin", None),
        ("cuda:0,cuda:1", "wp_a/a.sm75.ptx", None),
        ("cpu", "wp_a_p1_t2/a.cpp", "cpu"),
    ],
)
def test_first_start_on_a_kind_of_device_is_announced(tmp_path, monkeypatch, capsys, device, compiled, announced):
    monkeypatch.setenv("WARP_CACHE_PATH", str(tmp_path))
    if compiled is not None:
        file = tmp_path / "1.0" / compiled
        file.parent.mkdir(parents=True)
        file.touch()
    announce_first_start(device)
    note = (
        f"note: first start on this machine: kernels are compiled for {announced}, which takes minutes "
        f"(15 at most with num_envs=auto); later starts take them from {tmp_path}\n"
    )
    assert capsys.readouterr().out == (note if announced else "")


@pytest.fixture
def read_only(monkeypatch):
    """No folder of kernels may be written; a test may run as root, whom permissions do not hold."""

    def refuse(folder):
        raise OSError(30, "Read-only file system", str(folder))

    monkeypatch.setattr(kernel_cache, "check_writable", refuse)


def test_a_cache_that_will_be_made_is_accepted_and_not_made_yet(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WARP_CACHE_PATH", str(tmp_path / "a" / "b"))
    check_kernel_cache()
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr().err == ""


def test_a_cache_that_was_chosen_below_a_file_is_refused(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("WARP_CACHE_PATH", str(tmp_path / "file"))
    with pytest.raises(
        ConfigError, match=r"file/[\d.]+, where Warp keeps .* cannot be written .*: set WARP_CACHE_PATH to"
    ):
        check_kernel_cache()


@pytest.mark.usefixtures("read_only")
def test_an_empty_cache_that_was_chosen_and_cannot_be_written_is_refused(shared):
    shutil.rmtree(shared)
    shared.mkdir()
    with pytest.raises(ConfigError, match="cannot be written"):
        check_kernel_cache()


@pytest.mark.usefixtures("read_only")
def test_a_chosen_cache_with_kernels_that_cannot_be_written_is_used_with_a_warning(shared, capsys):
    check_kernel_cache()
    assert f"warning: {shared}, where Warp keeps the kernels" in capsys.readouterr().err


def test_kernels_in_a_home_that_cannot_be_written_are_taken_over(tmp_path, monkeypatch, capsys):
    home = tmp_path / "home"
    write(home / ".cache" / "warp" / WARP / "wp_old_1a" / "a.cpu.o", "compiled into the image")
    (home / ".cache" / "isaaclab_pc").touch()
    (tmp_path / "tmp").mkdir()
    for name, value in {"HOME": home, "TMPDIR": tmp_path / "tmp", "XDG_CACHE_HOME": "", "MPLCONFIGDIR": home}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.delenv("WARP_CACHE_PATH", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", None)

    for warnings in (1, 0):
        check_kernel_cache()
        assert shared_kernel_cache().is_relative_to(tmp_path / "tmp")
        assert content(shared_kernel_cache() / WARP) == {"wp_old_1a/a.cpu.o": "compiled into the image"}
        assert len(capsys.readouterr().err.splitlines()) == warnings
