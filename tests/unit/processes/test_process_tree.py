# SPDX-License-Identifier: BSD-3-Clause
"""The process tree: what it costs to look at it, and that it ends with its block."""

import contextlib
import os
import shlex
import sys
import time
from pathlib import Path

import psutil
import pytest

from isaaclab_pc.processes import process_tree as processes
from isaaclab_pc.processes.process_tree import ProcessTree
from tests.waiting import is_gone, wait_until

SLEEPER = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"]


def test_idle_child_is_not_read_page_by_page_all_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readings = 0

    def slow_pss(process: psutil.Process) -> int:
        nonlocal readings
        readings += 1
        time.sleep(0.5)  # at a fiftieth of the time, the next is due when this test has long ended
        return process.memory_info().rss // 2

    monkeypatch.setattr(processes, "_pss", slow_pss)
    sleeper = [*SLEEPER[:-1], f"print('up', flush=True); {SLEEPER[-1]}"]
    shell_with_a_child = ["sh", "-c", f"{shlex.join(sleeper)} & wait"]
    with (tmp_path / "log").open("wb") as log, ProcessTree(shell_with_a_child, log) as tree:
        wait_until(lambda: (tmp_path / "log").read_text() == "up\n")
        tree.sample()
        before = readings
        for _ in range(20):
            tree.sample()
            time.sleep(0.01)
        assert readings == before
        tree.sample(budget=1)
        assert readings > before, "beyond the budget it is read, whatever it costs"


def test_child_that_nothing_ends_is_named_and_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(processes, "_END_S", 0.3)
    with (tmp_path / "log").open("wb") as log:
        tree = ProcessTree(SLEEPER, log)
        tree.sample()
        (pid,) = tree.pids
        try:
            with monkeypatch.context() as stuck:
                for kill in ("os.kill", "os.killpg"):
                    stuck.setattr(kill, lambda *_: None)
                tree.end()
            assert psutil.pid_exists(pid)
            assert f" {pid}:" in capfd.readouterr().err
        finally:
            tree.end()
    assert not psutil.pid_exists(pid)


@pytest.mark.parametrize("failure", [None, KeyboardInterrupt])
def test_child_has_ended_after_its_block(tmp_path: Path, failure: type[BaseException] | None) -> None:
    with (tmp_path / "log").open("wb") as log:
        tree = ProcessTree(SLEEPER, log)
        with contextlib.suppress(KeyboardInterrupt), tree:
            tree.sample()
            (pid,) = tree.pids
            assert psutil.pid_exists(pid)
            if failure is not None:
                raise failure
    assert not psutil.pid_exists(pid)
    assert tree.wait(0) == -9


@pytest.mark.parametrize(
    ("given", "order"), [({}, "PCI_BUS_ID"), ({"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, "FASTEST_FIRST")]
)
def test_order_of_gpus(tmp_path: Path, given: dict[str, str], order: str) -> None:
    with (tmp_path / "out").open("wb") as output:
        argv = ["/bin/sh", "-c", "echo $CUDA_DEVICE_ORDER"]
        with ProcessTree(argv, output, {"PATH": os.environ["PATH"], **given}) as tree:
            assert tree.wait(10) == 0
    assert (tmp_path / "out").read_text() == f"{order}\n"


def test_kernel_takes_the_child_first_when_memory_runs_out(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log, ProcessTree(SLEEPER, log) as tree:
        tree.sample()
        score = Path(f"/proc/{tree.pids[0]}/oom_score_adj")
        wait_until(lambda: score.read_text().strip() == "1000")


def test_program_that_is_being_started_does_not_count_its_parents_memory_again(tmp_path: Path) -> None:
    """Between vfork and exec a process shows its parent's memory as its own."""
    size = 300 << 20
    code = f"""
import subprocess, time
data = bytearray({size})
for page in range(0, {size}, 4096):
    data[page] = 1
end = time.monotonic() + 4.0
while time.monotonic() < end:
    subprocess.run(["true"])
"""
    with (tmp_path / "log").open("wb") as log, ProcessTree([sys.executable, "-I", "-c", code], log) as tree:
        while tree.wait(0.0) is None:
            tree.sample(budget=1)
        assert size < tree.host_bytes < 1.3 * size, (tmp_path / "log").read_text()


def test_memory_that_outlives_one_of_its_users_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a process ends, what it shared belongs to the others: a reading before that must not be added to theirs."""
    size = 200 << 20
    code = f"""
import os, time
data = bytearray({size})
for page in range(0, {size}, 4096):
    data[page] = 1
os.fork()
print("shared", flush=True)
time.sleep(60)
"""
    ended: list[int] = []
    read_pss = processes._pss

    def read_and_end_the_first(process: psutil.Process) -> int:
        value = read_pss(process)
        if not ended:
            ended.append(process.pid)
            process.kill()
            wait_until(lambda: is_gone(process.pid), every=0.001)  # its pages are gone by then
        return value

    monkeypatch.setattr(processes, "_NEWBORN_S", 0.0)
    monkeypatch.setattr(processes, "_pss", read_and_end_the_first)
    with (tmp_path / "log").open("wb") as log, ProcessTree([sys.executable, "-I", "-c", code], log) as tree:
        wait_until(lambda: (tmp_path / "log").read_text().count("shared") == 2)
        tree.sample()
        assert len(tree.pids) == 2
        assert ended
        assert size < tree.host_bytes < 1.2 * size
