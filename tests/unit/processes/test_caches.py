# SPDX-License-Identifier: BSD-3-Clause
"""Caches of a user without a home that can be written. Tests run as root, whom permissions do not bind."""

import os
import pwd
import tempfile
from pathlib import Path

import pytest

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.processes.caches import cache_root, use_writable_caches


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home that a test may spoil, and a folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("MPLCONFIGDIR", "/given")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("home", "tmp"):
        (tmp_path / name).mkdir()
    return tmp_path / "home"


def below_a_file(home, monkeypatch):
    home.rmdir()
    home.touch()
    return home / ".cache" / "isaaclab_pc"


def with_somebody_elses_folder(home, monkeypatch):
    (home / ".cache").mkdir()
    (home / ".cache" / "warp").touch()
    return home / ".cache" / "warp"


def that_was_chosen(home, monkeypatch):
    (home / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "file"))
    return home / "file" / "isaaclab_pc"


def of_nobody(home, monkeypatch):
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: {}[uid])
    return Path("/dev/null/no-home/isaaclab_pc")


@pytest.mark.parametrize("spoil", [below_a_file, with_somebody_elses_folder, that_was_chosen, of_nobody])
def test_caches_that_cannot_be_written_are_temporary_with_one_warning(home, monkeypatch, capsys, spoil):
    named = spoil(home, monkeypatch)
    assert use_writable_caches()
    temporary = home.parent / "tmp" / f"isaaclab_pc-cache-{os.getuid()}"
    assert cache_root() == Path(os.environ["XDG_CACHE_HOME"]) == temporary
    assert temporary.stat().st_mode & 0o777 == 0o700
    assert list(temporary.iterdir()) == []

    (warning,) = capsys.readouterr().err.splitlines()
    for part in (f"warning: {named} ", str(temporary), "XDG_CACHE_HOME"):
        assert part in warning

    # The next start finds what was compiled, and its children say nothing.
    assert not use_writable_caches()
    assert capsys.readouterr().err == ""


def test_caches_that_can_be_written_stay_and_nothing_is_left_there(home, capsys):
    assert not use_writable_caches()
    assert "XDG_CACHE_HOME" not in os.environ, "empty, it would be the working directory to Warp"
    assert list(home.iterdir()) == []
    assert capsys.readouterr().err == ""


def made_by_somebody_else(folder, monkeypatch):
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    folder.rename(folder.with_name("isaaclab_pc-cache-4711"))


def open_to_everybody(folder, monkeypatch):
    folder.mkdir()
    folder.chmod(0o777)


def a_link(folder, monkeypatch):
    (folder.parent / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(folder.parent / "elsewhere")


@pytest.mark.parametrize("take", [made_by_somebody_else, open_to_everybody, a_link])
def test_no_code_is_loaded_from_a_temporary_folder_that_others_can_write(home, monkeypatch, take):
    below_a_file(home, monkeypatch)
    take(home.parent / "tmp" / f"isaaclab_pc-cache-{os.getuid()}", monkeypatch)
    use_writable_caches()
    assert cache_root().parent == home.parent / "tmp"
    assert cache_root().name not in (f"isaaclab_pc-cache-{uid}" for uid in (os.getuid(), 0, 4711))
    assert cache_root().stat().st_mode & 0o777 == 0o700


def test_without_a_temporary_folder_the_variable_is_named(home, monkeypatch):
    below_a_file(home, monkeypatch)
    monkeypatch.setattr(tempfile, "tempdir", str(home / "tmp"))
    with pytest.raises(ConfigError, match="XDG_CACHE_HOME"):
        use_writable_caches()
