# SPDX-License-Identifier: BSD-3-Clause
"""The parts of ranks in a Ray cluster that are plain Python: real processes, and no Ray."""

import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from isaaclab_pc.cluster import ray_rank, ray_train
from isaaclab_pc.cluster.ray_rank import Failure, Mailbox, run_rank
from isaaclab_pc.num_envs.classify import out_of_memory_line
from isaaclab_pc.supervise import oom_watch


class Actor:
    """A mailbox as Ray's ranks see it: a call is made at once, and ``ray.get`` has nothing to wait for."""

    def __init__(self) -> None:
        self.mailbox = Mailbox()

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=getattr(self.mailbox, name))


class Rank:
    """One rank of two, as Ray Train would run it."""

    def __init__(self, folder: Path) -> None:
        self.actor = Actor()
        self.number = 0
        self.said = ""
        self.log = folder / "worker.log"
        self.cwd = folder

    def run(self, program: str) -> Failure | None:
        """Run a program as its process; returns what the mailbox is told of its end."""
        config = {"program": ["-c", program], "cwd": str(self.cwd), "log": str(self.log), "mailbox": self.actor}
        has_failed = False
        try:
            run_rank(config)
        except RuntimeError:
            # For Ray, which ends the others.
            has_failed = True
        self.said, failures = self.actor.mailbox.read()
        assert set(failures) == ({self.number} if has_failed else set())
        return failures.get(self.number)


@pytest.fixture
def rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rank:
    rank = Rank(tmp_path)
    context = SimpleNamespace(
        get_world_rank=lambda: rank.number,
        get_local_rank=lambda: rank.number,
        get_world_size=lambda: 2,
        get_local_world_size=lambda: 2,
        get_node_rank=lambda: 0,
    )
    # A rank changes the folder.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ray_rank, "get_context", lambda: context)
    monkeypatch.setattr(ray_rank, "broadcast_from_rank_zero", lambda value: value or ("10.0.0.1", 1234))
    monkeypatch.setattr(ray, "get", lambda value: value)
    monkeypatch.setattr(ray.util, "get_node_ip_address", lambda: "10.0.0.2")
    return rank


# A rank


@pytest.mark.parametrize("code", [0, 75])
def test_a_rank_that_is_done_or_was_told_to_stop_has_not_failed(rank: Rank, code: int) -> None:
    assert rank.run(f"raise SystemExit({code})") is None
    assert rank.actor.mailbox.has_begun()


@pytest.mark.parametrize(
    ("program", "code"),
    [("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", -9), ("raise SystemExit(143)", 143)],
)
def test_a_rank_that_fails_tells_its_exit_code(rank: Rank, program: str, code: int) -> None:
    failure = rank.run(program)
    assert failure is not None
    assert (failure.exitcode, failure.refused, failure.out_of_memory) == (code, "", "")


def test_a_rank_that_the_kernel_killed_for_lack_of_memory_says_so(rank: Rank, monkeypatch: pytest.MonkeyPatch) -> None:
    killed = rank.cwd / "killed"
    group = SimpleNamespace(oom_kills=lambda: 3 + killed.exists())
    monkeypatch.setattr(oom_watch, "memory_cgroups", lambda: [group])
    failure = rank.run("import os, pathlib; pathlib.Path('killed').touch(); os.kill(os.getpid(), 9)")
    assert failure is not None
    assert failure.exitcode == -9
    assert out_of_memory_line(failure.out_of_memory)
    assert "10.0.0.2" in failure.out_of_memory
    failure = rank.run("raise SystemExit(1)")
    assert failure is not None
    assert failure.out_of_memory == "", "that was before"


def test_a_rank_is_told_who_it_is_and_what_it_prints_is_passed_on(rank: Rank) -> None:
    rank.number = 1
    assert rank.run("import os; print(os.environ['RANK'], os.environ['ISAACLAB_PC_RANKS'], flush=True)") is None
    assert rank.said == "1 2\n"


@pytest.mark.parametrize(
    ("number", "sent", "expected"),
    [
        (0, signal.SIGTERM, -signal.SIGTERM),
        # The first one tells the others.
        (1, signal.SIGTERM, None),
        (1, signal.SIGABRT, -signal.SIGABRT),
    ],
)
def test_signals_go_to_the_first_rank(rank: Rank, number: int, sent: int, expected: int | None) -> None:
    rank.number = number
    rank.actor.mailbox.send_signal(sent)
    failure = rank.run(f"import time; time.sleep({1 if expected is None else 30})")
    assert (failure and failure.exitcode) == expected


def test_a_rank_whose_node_does_not_see_the_runs_folder_is_refused(rank: Rank) -> None:
    rank.log = rank.cwd / "not there" / "worker.log"
    failure = rank.run("raise SystemExit(0)")
    assert failure is not None
    assert failure.exitcode == 2
    assert str(rank.log.parent) in failure.refused
    assert "10.0.0.2" in failure.refused
    assert not rank.actor.mailbox.has_begun()


# The exit code of all of them


@pytest.mark.parametrize(
    ("failures", "errors", "code", "shown", "logged"),
    [
        ({}, [], 0, "", ""),
        ({0: Failure(-15, 12), 1: Failure(3, 10)}, [RuntimeError("rank 1 ended")], 3, "", ""),
        ({1: Failure(-9, 10)}, [RuntimeError("rank 1 ended")], 137, "", ""),
        ({1: Failure(2, 10, refused="/a is not seen")}, [RuntimeError()], 2, "error: /a is not seen\n", ""),
        (
            {0: Failure(1, 10), 1: Failure(-9, 10, out_of_memory="OOM Killed: rank 1 on b")},
            [RuntimeError()],
            1,
            "",
            "OOM Killed: rank 1 on b\n",
        ),
        ({}, [RuntimeError("a worker\nis gone")], 1, "", "a Ray worker was lost: a worker is gone\n"),
    ],
    ids=["done", "failed", "killed", "refused", "out of memory", "lost"],
)
def test_the_exit_code_is_that_of_the_cause(
    capfd: pytest.CaptureFixture[str],
    failures: dict[int, Failure],
    errors: list[Exception],
    code: int,
    shown: str,
    logged: str,
) -> None:
    assert ray_train._code(failures, errors) == code
    assert capfd.readouterr() == (shown, logged)
