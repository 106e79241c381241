# SPDX-License-Identifier: BSD-3-Clause
import os
from typing import Any

import pytest

from isaaclab_pc.launch.compose import compose
from isaaclab_pc.launch.run_record import RunRecord
from isaaclab_pc.workers import checkpoint_keeper as module
from isaaclab_pc.workers.checkpoint_keeper import INTERVAL_SECONDS, CheckpointKeeper


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test turns."""
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def record(tmp_path):
    return RunRecord.create(tmp_path, compose(), "reach")


class Saver:
    """Writes files whose times are a second apart, as real training does."""

    def __init__(self):
        self.extras = []

    def __call__(self, path, extra):
        self.extras.append(extra)
        path.parent.mkdir(exist_ok=True)
        path.touch()
        os.utime(path, (len(self.extras), len(self.extras)))


def names(record):
    return sorted(path.name for path in (record.folder / "checkpoints").iterdir())


def test_a_checkpoint_is_due_after_the_interval(clock, record):
    keeper = CheckpointKeeper(record, Saver())
    clock[0] = INTERVAL_SECONDS - 1
    assert not keeper.is_due()
    clock[0] = INTERVAL_SECONDS
    assert keeper.is_due()
    keeper.write(1)
    assert not keeper.is_due()


def test_the_last_few_and_the_best_are_kept(record):
    keeper = CheckpointKeeper(record, Saver())
    for iteration, rate in [(10, 0.1), (20, 0.9), (30, 0.2), (40, 0.3), (50, float("nan")), (60, 0.4)]:
        keeper.add_success_rate(rate)
        keeper.write(iteration)
    assert names(record) == ["model_20.pt", "model_40.pt", "model_50.pt", "model_60.pt"]
    written: Any = RunRecord.load(record.folder)
    assert written.checkpoint("latest") == record.folder / "checkpoints" / "model_60.pt"
    assert written.checkpoint("best") == record.folder / "checkpoints" / "model_20.pt"
    assert written.data.checkpoints.best.success_rate == 0.9
    assert written.data.completed_iterations == 60


def test_the_rate_of_a_checkpoint_is_the_mean_since_the_one_before(record):
    keeper = CheckpointKeeper(record, Saver())
    for rate in (1.0, 0.0, float("nan")):
        keeper.add_success_rate(rate)
    keeper.write(3)
    keeper.add_success_rate(0.75)
    keeper.write(4)
    assert record.data.checkpoints.latest.success_rate == 0.75
    assert record.data.checkpoints.best.iteration == 4


def test_equal_rates_prefer_the_later_checkpoint(record):
    keeper = CheckpointKeeper(record, Saver())
    for iteration in (1, 2):
        keeper.write(iteration)
    assert record.data.checkpoints.best.iteration == 2


def test_a_run_resumed_from_an_older_checkpoint_keeps_its_new_ones(record):
    saver = Saver()
    keeper = CheckpointKeeper(record, saver)
    for iteration in (70, 80, 90, 50):
        keeper.write(iteration)
    assert "model_50.pt" in names(record)
    assert record.checkpoint("latest") == record.folder / "checkpoints" / "model_50.pt"


def test_a_checkpoint_says_what_it_belongs_to(record):
    saver = Saver()
    CheckpointKeeper(record, saver).write(1)
    assert saver.extras == [{"task": "IsaacPC-Reach-Franka-Direct", "experiment": "reach"}]
