# SPDX-License-Identifier: BSD-3-Clause
"""A file is whole or not there, whatever ends its writer."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from isaaclab_pc.files import full_disk, write_atomically, write_text_atomically

KILLED_WHILE_WRITING = """
import os, signal, sys
from pathlib import Path
from isaaclab_pc.files import write_atomically

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


def test_the_place_is_empty_until_the_block_ends(tmp_path):
    path = tmp_path / "a.bin"
    with write_atomically(path) as partial:
        partial.write_bytes(b"1")
        assert not path.exists()
        assert partial.parent == path.parent
    assert path.read_bytes() == b"1"


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


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        write_text_atomically(tmp_path / "nowhere" / "a.txt", "text")


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
