# SPDX-License-Identifier: BSD-3-Clause
import os
from typing import Any

import pytest

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.run.evaluation import Evaluation, Success
from isaaclab_pc.run.record import RunRecord
from isaaclab_pc.workers.checkpoint_keeper import CheckpointKeeper


@pytest.fixture
def record(tmp_path):
    return RunRecord.create(tmp_path, compose())


class Saver:
    """Writes files whose times are a second apart, as real training does."""

    def __init__(self):
        self.extras = []

    def __call__(self, path, extra):
        self.extras.append(extra)
        path.parent.mkdir(exist_ok=True)
        path.touch()
        os.utime(path, (len(self.extras), len(self.extras)))


@pytest.fixture
def saver():
    return Saver()


@pytest.fixture
def keeper(record, saver):
    return CheckpointKeeper(record, saver, 60.0, 0.05)


def names(record):
    return sorted(path.name for path in (record.folder / "checkpoints").iterdir())


def evaluation(rate: float | None, mean_return: float | None = 0.0) -> Evaluation:
    success = None if rate is None else Success(rate=rate, lower=0.0, upper=1.0)
    return Evaluation(
        episodes=10, seed=3, success=success, success_once=success, mean_return=mean_return, mean_time_to_success_s=None
    )


def test_a_checkpoint_is_due_after_the_interval(record):
    now = 0.0
    keeper = CheckpointKeeper(record, Saver(), 60.0, 0.05, clock=lambda: now)
    now = 59.0
    assert not keeper.is_due()
    now = 60.0
    assert keeper.is_due()
    keeper.write(1)
    assert not keeper.is_due()


def test_evaluations_take_at_most_their_share_of_the_time(record):
    now = 0.0
    keeper = CheckpointKeeper(record, Saver(), 60.0, 0.05, clock=lambda: now)
    now = 94.0
    assert not keeper.has_time_for(5.0)
    now = 95.0
    assert keeper.has_time_for(5.0)
    keeper.write(1)
    now = 100.0
    keeper.add_evaluation(evaluation(0.5), 5.0)
    assert not keeper.has_time_for(5.0)
    now = 195.0
    assert keeper.has_time_for(5.0)


def test_what_a_killed_writer_left_is_removed(record):
    folder = record.folder / "checkpoints"
    folder.mkdir()
    (folder / "model_3.pt").touch()
    (folder / ".model_7.pt.4711.tmp").touch()
    CheckpointKeeper(record, Saver(), 60.0, 0.05)
    assert names(record) == ["model_3.pt"]


def test_the_last_few_and_the_best_are_kept(keeper, saver, record):
    for iteration, rate in [(10, 0.1), (20, 0.9), (30, 0.2), (40, 0.3), (50, None), (60, 0.4)]:
        keeper.write(iteration)
        if rate is not None:
            assert keeper.add_evaluation(evaluation(rate), 5.0) == (iteration in (10, 20))
    assert names(record) == ["model_20.pt", "model_40.pt", "model_50.pt", "model_60.pt"]
    assert saver.extras == 6 * [{"task": "IsaacPC-Reach-Franka-Direct", "experiment": "reach"}]
    written: Any = RunRecord.load(record.folder)
    assert written.checkpoint("latest") == record.folder / "checkpoints" / "model_60.pt"
    assert written.checkpoint("best") == record.folder / "checkpoints" / "model_20.pt"
    assert written.data.checkpoints.best.evaluation == evaluation(0.9)
    assert written.data.checkpoints.latest.evaluation == evaluation(0.4)
    assert written.data.completed_iterations == 60


@pytest.mark.parametrize(
    ("first", "second", "best"),
    [
        ((0.9, 0.0), (0.8, 0.0), 1),
        ((0.5, 2.0), (0.6, 1.0), 2),
        # At equal rates the higher return, and then the later checkpoint.
        ((0.5, 1.0), (0.5, 2.0), 2),
        ((0.5, 2.0), (0.5, 1.0), 1),
        ((0.5, 1.0), (0.5, 1.0), 2),
        # A task that knows no success.
        ((None, 5.0), (None, 4.0), 1),
        ((None, 5.0), (None, None), 1),
    ],
)
def test_the_best_is_that_of_the_better_evaluation_also_of_a_resumed_run(keeper, record, first, second, best):
    keeper.write(1)
    keeper.add_evaluation(evaluation(*first), 5.0)
    resumed = CheckpointKeeper(RunRecord.load(record.folder), Saver(), 60.0, 0.05)
    assert resumed.has_evaluated_best()
    # The success of training chooses nothing.
    resumed.add_success_rate(1.0)
    resumed.write(2)
    resumed.add_evaluation(evaluation(*second), 5.0)
    data: Any = RunRecord.load(record.folder).data
    assert (data.checkpoints.best.iteration, data.checkpoints.latest.iteration) == (best, 2)


def test_the_rate_of_a_checkpoint_is_the_mean_since_the_one_before(keeper, record):
    for rate in (1.0, 0.0, float("nan")):
        keeper.add_success_rate(rate)
    keeper.write(3)
    assert record.data.checkpoints.latest.success_rate == 0.5
    keeper.add_success_rate(0.75)
    keeper.write(4)
    assert record.data.checkpoints.latest.success_rate == 0.75


def test_the_newest_is_the_best_until_one_is_evaluated(keeper, record):
    for iteration in (1, 2):
        keeper.write(iteration)
        assert not keeper.has_evaluated_best()
    assert record.data.checkpoints.best.iteration == 2
    keeper.add_evaluation(evaluation(0.0), 5.0)
    keeper.write(3)
    assert record.data.checkpoints.best.iteration == 2


def test_a_run_resumed_from_an_older_checkpoint_keeps_its_new_ones(keeper, record):
    for iteration in (70, 80, 90, 50):
        keeper.write(iteration)
    assert "model_50.pt" in names(record)
    assert record.checkpoint("latest") == record.folder / "checkpoints" / "model_50.pt"


def test_a_best_checkpoint_that_is_written_anew_is_another_one(keeper, record):
    for iteration, rate in ((50, 0.5), (60, 0.9)):
        keeper.write(iteration)
        keeper.add_evaluation(evaluation(rate), 1.0)
    keeper.write(60)
    assert record.data.checkpoints.best.evaluation is None
    worse = evaluation(0.1)
    keeper.add_evaluation(worse, 1.0)
    assert record.data.checkpoints.best.evaluation == worse
