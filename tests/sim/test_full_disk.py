# SPDX-License-Identifier: BSD-3-Clause
"""Training on real physics whose disk fills, and goes on once there is room again."""

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from isaaclab_pc.learners.common.checkpoint_file import check_intact
from tests.sim.training import Training, processes_of

pytestmark = [pytest.mark.sim, pytest.mark.physx, pytest.mark.slow]


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

        assert "error: the disk is full (No space left on device" in training.output
        assert "Traceback" not in training.output
        latest = training.record["checkpoints"]["latest"]
        folder = training.run.relative_to(tmp_path)
        assert training.output.endswith(f"resume={folder} goes on after iteration {latest['iteration']}\n")
        check_intact(training.run / latest["path"])
        assert not list((training.run / "checkpoints").glob(".*.tmp"))
        assert processes_of(training.run) == []

    if room == 0:
        with Training.resumed(tmp_path) as training:
            assert training.script.wait(timeout=60) == 2, training.output
            assert "cannot be written (No space left on device): make room" in training.output
            assert not (training.run / "job.json").exists()

    ballast.unlink()
    with Training.resumed(tmp_path, f"max_iterations={latest['iteration'] + 3}") as training:
        assert training.script.wait(timeout=120) == 0, training.output
        assert f"resuming from {folder / latest['path']}" in training.output
        assert (training.record["status"], training.record["error"]) == ("completed", None)
