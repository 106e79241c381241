# SPDX-License-Identifier: BSD-3-Clause
"""The launcher of several ranks, with real processes and signals."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from isaaclab_pc.cluster.ranks import exit_code, ranks_command
from tests.unit.cluster import waiting_rank
from tests.unit.cluster.waiting_rank import pid_of
from tests.waiting import is_gone, wait_until


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[subprocess.Popen]:
    """A launcher whose two ranks wait for a signal."""
    process = subprocess.Popen(ranks_command(2, [sys.executable, waiting_rank.__file__, str(tmp_path), "0"]))
    wait_until(lambda: len(list(tmp_path.glob("ready_*"))) == 2, alive=process)
    yield process
    process.kill()
    process.wait()


def test_a_signal_goes_to_the_first_rank(launcher: subprocess.Popen, tmp_path: Path) -> None:
    launcher.send_signal(signal.SIGUSR1)
    assert launcher.wait(20) == 128 + signal.SIGUSR1
    assert (tmp_path / "signal_0").read_text() == str(int(signal.SIGUSR1))
    assert not (tmp_path / "signal_1").exists()


def test_a_rank_that_is_killed_ends_the_group_with_its_signal(launcher: subprocess.Popen, tmp_path: Path) -> None:
    os.kill(pid_of(tmp_path, 1), signal.SIGKILL)
    assert launcher.wait(20) == 128 + signal.SIGKILL
    wait_until(lambda: is_gone(pid_of(tmp_path, 0)))


def test_ranks_do_not_outlive_their_launcher(launcher: subprocess.Popen, tmp_path: Path) -> None:
    launcher.kill()
    launcher.wait(5)
    wait_until(lambda: is_gone(pid_of(tmp_path, 0)))
    wait_until(lambda: is_gone(pid_of(tmp_path, 1)))
    # By SIGTERM, for a checkpoint.
    assert (tmp_path / "signal_0").read_text() == str(int(signal.SIGTERM))


@pytest.mark.parametrize(
    ("failures", "expected"),
    [
        # An error, and those whom it was told to end.
        ({0: (-15, 12), 1: (3, 10)}, 3),
        # In the same second, the others lose a rank that was killed.
        ({0: (1, 10), 1: (-9, 10)}, 137),
        ({0: (1, 10), 1: (-9, 11)}, 1),
        ({0: (-15, 10), 1: (-15, 10)}, 143),
    ],
)
def test_the_exit_code_is_that_of_the_cause(failures: dict[int, tuple[int, int]], expected: int) -> None:
    ended: Any = {rank: SimpleNamespace(exitcode=code, timestamp=at) for rank, (code, at) in failures.items()}
    assert exit_code(ended) == expected


def test_a_single_rank_needs_no_launcher() -> None:
    assert ranks_command(1, ["program", "argument"]) == ["program", "argument"]
