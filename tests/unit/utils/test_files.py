# SPDX-License-Identifier: BSD-3-Clause
"""A file is whole or not there, whatever ends its writer."""

import errno
import os
import signal
import subprocess
import sys

import pytest
from filelock import Timeout

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.utils.files import full_disk, locked_file, write_atomically, write_text_atomically
from tests.no_locks import without_locks

KILLED_WHILE_WRITING = """
import os, signal, sys
from pathlib import Path
from isaaclab_pc.utils.files import write_atomically

with write_atomically(Path(sys.argv[1])) as partial:
    partial.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_file_has_the_new_content_and_nothing_lies_beside_it(tmp_path):
    path = tmp_path / "a.txt"
    write_text_atomically(path, "old")
    write_text_atomically(path, "new ü")
    assert path.read_text(encoding="utf-8") == "new ü"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_an_error_keeps_the_old_file(tmp_path):
    path = tmp_path / "a.txt"
    write_text_atomically(path, "old")

    def fail_halfway():
        with write_atomically(path) as partial:
            partial.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_halfway()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_writer_that_is_killed_keeps_the_old_file(tmp_path):
    path = tmp_path / "a.txt"
    write_text_atomically(path, "old")
    done = subprocess.run([sys.executable, "-c", KILLED_WHILE_WRITING, path], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_text() == "old"


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "a.pt"), "No space left on device: a.pt"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "Disk quota exceeded"),
        (OSError(errno.EACCES, "Permission denied", "a.pt"), ""),
        (RuntimeError("No space left on device"), ""),
    ],
)
def test_a_full_disk_is_told_from_other_errors(error, found):
    assert full_disk(error) == found


def test_a_lock_keeps_others_out_until_the_block_ends(tmp_path):
    path = tmp_path / "lock"
    with locked_file(path, "Wait."), pytest.raises(Timeout), locked_file(path, "Wait."):
        pass
    with locked_file(path, "Wait."):
        pass


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_refused(tmp_path, monkeypatch, number):
    without_locks(monkeypatch, number)
    with pytest.raises(ConfigError, match=r"lock .*Go elsewhere\."), locked_file(tmp_path / "lock", "Go elsewhere."):
        pass


def test_a_lock_whose_file_cannot_be_made_is_another_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError), locked_file(tmp_path / "file" / "lock", "Go elsewhere."):
        pass
