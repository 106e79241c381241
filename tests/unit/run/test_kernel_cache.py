# SPDX-License-Identifier: BSD-3-Clause
"""Where kernels are kept, and whether a start compiles them."""

import shutil
from importlib import metadata
from pathlib import Path

import pytest

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.run import kernel_cache
from isaaclab_pc.run.kernel_cache import announce_first_start, check_kernel_cache, shared_kernel_cache

WARP = metadata.version("warp-lang")


@pytest.fixture
def shared(tmp_path, monkeypatch):
    """A cache with one module."""
    monkeypatch.setenv("WARP_CACHE_PATH", str(tmp_path / "shared"))
    folder = tmp_path / "shared" / WARP
    (folder / "wp_old_1a").mkdir(parents=True)
    return folder


def test_where_warp_keeps_its_kernels(monkeypatch):
    import warp

    monkeypatch.delenv("WARP_CACHE_PATH", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert shared_kernel_cache() == Path.home() / ".cache" / "warp"
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert shared_kernel_cache() == Path("/cache/warp")
    monkeypatch.setenv("WARP_CACHE_PATH", "/a")
    assert shared_kernel_cache() == Path("/a")
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
    said = capsys.readouterr().out
    assert (f" {announced}, " in said and f" {tmp_path}\n" in said) if announced else said == ""


@pytest.fixture
def read_only(monkeypatch):
    """No folder of kernels may be written; a test may run as root, whom permissions do not hold."""

    def refuse(folder):
        raise OSError(30, "Read-only file system", str(folder))

    monkeypatch.setattr(kernel_cache, "check_writable", refuse)


def test_a_chosen_cache_that_can_be_made_is_accepted_and_not_made_yet(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").touch()
    monkeypatch.setenv("WARP_CACHE_PATH", str(tmp_path / "a" / "b"))
    check_kernel_cache()
    assert capsys.readouterr().err == ""
    assert [path.name for path in tmp_path.iterdir()] == ["file"]

    monkeypatch.setenv("WARP_CACHE_PATH", str(tmp_path / "file"))
    with pytest.raises(ConfigError, match=r"file/[\d.]+, .*WARP_CACHE_PATH"):
        check_kernel_cache()


@pytest.mark.usefixtures("read_only")
def test_a_chosen_cache_that_cannot_be_written_is_used_with_a_warning_while_it_holds_kernels(shared, capsys):
    check_kernel_cache()
    assert capsys.readouterr().err.startswith(f"warning: {shared}, ")
    shutil.rmtree(shared)
    shared.mkdir()
    with pytest.raises(ConfigError, match="WARP_CACHE_PATH"):
        check_kernel_cache()
