# SPDX-License-Identifier: BSD-3-Clause
"""Training on real physics that is stopped, or finds its disk full, where it is least convenient, and goes on later."""

import contextlib
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from isaaclab_pc.learners import RUNNERS
from isaaclab_pc.learners.common.checkpoint_file import check_intact
from tests.sim.training import Training, begin_every_process_with, processes_of

pytestmark = [pytest.mark.sim, pytest.mark.physx, pytest.mark.slow]

# A process that trains gets a signal in the middle of its second checkpoint.
SIGNAL_IN_CHECKPOINT = """\
import os, pathlib, sys

written = set()

def watch(event, arguments):
    if event != "open" or not isinstance(arguments[0], str) or "/.model_" not in arguments[0]:
        return
    written.add(arguments[0])
    if len(written) == 2 and not pathlib.Path("sent").exists():
        pathlib.Path("sent").touch()
        number = int(os.environ["SENT_SIGNAL"])
        os.kill(os.getpid(), number)
        if os.environ["TO_SCRIPT"] == "yes":
            os.kill(os.getppid(), number)

if "isaaclab_pc.workers" in pathlib.Path("/proc/self/cmdline").read_text():
    sys.addaudithook(watch)
"""


def goes_on_to_its_end(folder: Path, iterations: int) -> None:
    with Training.resumed(folder, f"max_iterations={iterations}") as training:
        assert training.script.wait(timeout=120) == 0, training.output
        assert (training.record["status"], training.record["completed_iterations"]) == ("completed", iterations)
        assert training.record["evaluation"] is not None


@pytest.mark.parametrize("seconds", [1, 4])
def test_stopped_while_it_builds_it_leaves_no_process_and_no_checkpoint(tmp_path: Path, seconds: float) -> None:
    with Training(tmp_path, "max_iterations=100000") as training:
        training.wait_until("build")
        time.sleep(seconds)
        assert training.beat()["phase"] == "build", "too late for this test"
        training.script.send_signal(signal.SIGTERM)
        assert training.script.wait(timeout=100) == 75, training.output

        assert "Traceback" not in training.output
        assert training.record["status"] == "interrupted"
        assert not (training.run / "checkpoints").exists()
        assert processes_of(training.run) == []


@pytest.mark.parametrize("to_script", ["yes", "no"])
def test_stopped_in_the_middle_of_a_checkpoint_it_writes_it_and_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to_script: str
) -> None:
    sent = {"SENT_SIGNAL": str(int(signal.SIGTERM)), "TO_SCRIPT": to_script}
    begin_every_process_with(SIGNAL_IN_CHECKPOINT, tmp_path, monkeypatch, **sent)
    with Training(tmp_path, "max_iterations=100000") as training:
        assert training.script.wait(timeout=120) == 75, training.output
        assert (tmp_path / "sent").exists()
        record = training.record
        assert (record["status"], record["restarts"]) == ("interrupted", [])
        assert record["checkpoints"]["latest"]["iteration"] == record["completed_iterations"]
        is_whole(training.run, record["checkpoints"]["latest"]["path"])
    goes_on_to_its_end(tmp_path, record["completed_iterations"] + 3)


def test_killed_in_the_middle_of_a_checkpoint_it_goes_on_from_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = {"SENT_SIGNAL": str(int(signal.SIGKILL)), "TO_SCRIPT": "no"}
    begin_every_process_with(SIGNAL_IN_CHECKPOINT, tmp_path, monkeypatch, **sent)
    with Training(tmp_path, "max_iterations=30") as training:
        assert training.script.wait(timeout=240) == 0, training.output
        (restart,) = training.record["restarts"]
        assert (restart["cause"], restart["from_iteration"] > 0) == ("killed", True)
        assert restart["from_iteration"] < restart["iteration"]
        is_whole(training.run, training.record["checkpoints"]["latest"]["path"])


@pytest.mark.parametrize("runner", RUNNERS)
def test_stopped_in_its_last_evaluation_it_goes_on_with_it(tmp_path: Path, runner: str) -> None:
    with Training(tmp_path, "max_iterations=2", "eval.episodes=320", runner=runner) as training:
        training.wait_until("evaluate")
        record = training.stop()
        assert (record["completed_iterations"], record["evaluation"]) == (2, None)

    goes_on_to_its_end(tmp_path, 2)


def is_whole(run: Path, checkpoint: str) -> None:
    """Whether all checkpoints of a run can be read, and nothing else lies beside them."""
    files = sorted((run / "checkpoints").iterdir())
    assert run / checkpoint in files
    for file in files:
        check_intact(file)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_same_signal_twice_ends_a_process_that_cannot_at_once(tmp_path: Path, number: signal.Signals) -> None:
    with Training(tmp_path, "max_iterations=100000") as training:
        worker = training.wait_for_checkpoint()
        worker.suspend()
        training.script.send_signal(number)
        time.sleep(2)
        assert training.script.poll() is None, "it has time for a checkpoint"

        training.script.send_signal(number)
        assert training.script.wait(timeout=10) == 75, training.output
        assert processes_of(training.run) == []
        record = training.record
        assert record["status"] == "interrupted"
        is_whole(training.run, record["checkpoints"]["latest"]["path"])
    goes_on_to_its_end(tmp_path, record["completed_iterations"] + 3)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 8 MiB, where the runs of a folder are kept."""
    logs = tmp_path / "logs"
    logs.mkdir()
    try:
        mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "none", str(logs)]
        subprocess.run(mount, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        pytest.skip(f"needs to mount a small disk: {error}")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"needs to mount a small disk: {error.stderr.strip()}")
    yield logs
    # A process that a failed test left behind may still write.
    subprocess.run(["umount", "--lazy", str(logs)], check=True)


def fill(disk: Path, room: int) -> Path:
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while shutil.disk_usage(disk).free > room:
            file.write(bytes(4096))
    return ballast


# The second holds a record and lines of the log, but no checkpoint.
@pytest.mark.parametrize("room", [0, 200_000])
def test_a_run_whose_disk_fills_ends_with_its_last_checkpoint_and_goes_on_later(
    tmp_path: Path, disk: Path, room: int
) -> None:
    with Training(tmp_path, "max_iterations=100000") as training:
        training.wait_for_checkpoint()
        ballast = fill(disk, room)
        assert training.script.wait(timeout=120) == 5, training.output

        assert "Traceback" not in training.output
        latest = training.record["checkpoints"]["latest"]
        folder = training.run.relative_to(tmp_path)
        assert f"resume={folder} " in training.output
        is_whole(training.run, latest["path"])
        assert processes_of(training.run) == []

    if room == 0:
        with Training.resumed(tmp_path) as training:
            assert training.script.wait(timeout=60) == 2, training.output
            assert "No space" in training.output
            assert not (training.run / "job.json").exists()

    ballast.unlink()
    goes_on_to_its_end(tmp_path, latest["iteration"] + 3)
