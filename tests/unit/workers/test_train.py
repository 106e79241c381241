# SPDX-License-Identifier: BSD-3-Clause
"""Training around a fake session: record, checkpoints, evaluation, and every way to stop."""

import io
import json
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners import NonFiniteError
from isaaclab_pc.num_envs.trial import Progress, TrainingPhase
from isaaclab_pc.processes.child_process import ExitCode
from isaaclab_pc.run.iteration_log import read_iterations
from isaaclab_pc.run.jobs import TrainJob
from isaaclab_pc.run.record import RunRecord
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.supervise.heartbeat import HEARTBEAT_NAME, Heartbeat
from isaaclab_pc.terminal.screen import Lines
from isaaclab_pc.workers import checkpoint_keeper as checkpoints
from isaaclab_pc.workers import train as worker
from tests.unit.workers.fake_session import METRICS, SETTINGS, USAGE


def record(run) -> Any:
    return RunRecord.load(run).data


class Trainer:
    """Trains the run of a folder, and keeps what the user saw."""

    def __init__(self, folder: Path) -> None:
        self.output = ""
        self._folder = folder

    def __call__(self, *changes: str, checkpoint: Path | None = None) -> int:
        stream = io.StringIO()
        job = TrainJob(compose([*SETTINGS, *changes]), checkpoint)
        try:
            return worker.train(job, self._folder, Lines(stream))
        except SystemExit as ended:
            return int(ended.code or 0)
        finally:
            self.output = stream.getvalue()


@pytest.fixture
def train(run):
    return Trainer(run)


def test_training_ends_with_a_checkpoint_and_an_evaluation(run, train, fake_session):
    session = fake_session()
    assert train() == 0
    assert train.output.count("warning: num_threads\n") == 1
    assert train.output.count("iteration ") == 5
    data = record(run)
    assert (data.status, data.completed_iterations, data.env_steps) == ("completed", 5, 5 * 256)
    assert data.guard == {"action": 2}
    assert data.checkpoints.latest.path == "checkpoints/model_5.pt"
    assert session.env.seeds == [1000], "the only checkpoint needs no evaluation of its own"
    assert (data.evaluation.episodes, data.evaluation.seed, data.success) == (8, 1000, 1.0)
    assert str(data.evaluation) in train.output
    assert session.env.closed

    entries = read_iterations(run)
    assert [entry.iteration for entry in entries] == [1, 2, 3, 4, 5]
    assert [entry.env_steps for entry in entries] == [256 * n for n in range(1, 6)]
    assert entries[-1].wall_s == data.wall_s
    assert [entry.metrics for entry in entries] == [METRICS] * 5


SAVE_ALWAYS = "supervise.checkpoint_interval=0"
"""Writes a checkpoint after every iteration."""


@pytest.fixture
def has_time(monkeypatch):
    """Have time for an evaluation of every checkpoint."""
    monkeypatch.setattr(checkpoints.CheckpointKeeper, "has_time_for", lambda self, seconds: True)


@pytest.mark.usefixtures("has_time")
def test_it_leaves_word_of_rollouts_and_updates_whatever_evaluations_come_between(run, train, fake_session):
    phases = []

    def during(completed):
        for _ in range(64):
            session.env.step(torch.zeros(4, 1))
            phases.append(Progress.read(run / "progress.json").phase)

    session = fake_session(during)
    session.env.reset()
    assert train(SAVE_ALWAYS) == 0
    assert len(session.env.seeds) > 6, "evaluations, whose steps are not those of an iteration"
    assert phases == 5 * (63 * [TrainingPhase.ROLLOUT] + [TrainingPhase.UPDATE])
    progress = Progress.read(run / "progress.json")
    assert (progress.minibatch_size, progress.chunk) == (64, 48)


@pytest.mark.parametrize(
    ("given", "held"), [(["scaling.budget=2GiB"], [2 << 30]), (["scaling.budget=0.5"], [0.5]), ([], [])]
)
def test_a_budget_that_is_given_holds_in_the_run(given, held):
    calls = []
    gpu: Any = SimpleNamespace(hold_to=calls.append)
    worker._hold_to_budget(compose(["device=cuda:0", *given]), gpu)
    worker._hold_to_budget(compose(["device=cpu", *given]), None)
    assert calls == held


def test_the_record_is_written_with_checkpoints_and_read_with_the_iterations_since(run, train, fake_session):
    seen = []

    def written():
        return json.loads((run / "run.json").read_text(encoding="utf-8"))["completed_iterations"]

    def during(completed):
        seen.append((written(), record(run).completed_iterations, record(run).env_steps))

    fake_session(during)
    assert train() == 0
    assert seen == [(0, done, 256 * done) for done in range(5)]
    assert written() == 5


def test_the_settings_of_a_job_are_the_runs_once_it_is_built(run, train, fake_session):
    fake_session(error=ConfigError("no such field"))
    with pytest.raises(ConfigError):
        train("seed=7")
    assert not (run / "config.yaml").exists()
    fake_session()
    assert train("seed=7") == 0
    assert RunSettings.load(run / "config.yaml").seed == 7


@pytest.mark.usefixtures("has_time")
def test_the_best_checkpoint_is_chosen_by_seeded_evaluations(run, train, fake_session):
    def during(completed):
        # Only the policy of the third iteration solves the task.
        session.env.succeeds[:] = completed == 3

    session = fake_session(during)
    assert train(SAVE_ALWAYS) == 0
    data = record(run)
    best = data.checkpoints.best
    assert (best.iteration, best.evaluation.success_rate, best.evaluation.seed) == (3, 1.0, 2000)
    assert best.evaluation.episodes == 100
    assert data.evaluation.success_rate == 0.0
    assert data.completed_iterations == 5
    # Each evaluation is followed by a reset for the training to go on from.
    assert session.env.seeds == [2000, None] * 5 + [1000]
    assert session.runner.trainings == 5
    assert train.output.count("iteration ") == 5
    assert train.output.count("the best") == 3  # at equal scores the later one
    curve = [(point.iteration, point.env_steps, point.evaluation.success_rate) for point in data.evaluations]
    assert curve == [(n, n * 256, float(n == 3)) for n in range(1, 6)]
    assert data.peak_bytes > 1 << 20


def test_without_time_for_it_the_latest_checkpoint_is_the_best(run, train, fake_session):
    session = fake_session()
    assert train("eval.best_share=0", SAVE_ALWAYS) == 0
    best = record(run).checkpoints.best
    assert (best.iteration, best.evaluation) == (5, None)
    assert session.env.seeds == [1000]


@pytest.mark.usefixtures("has_time")
def test_a_supervisor_sees_what_it_does(run, train, fake_session):
    beats = []

    def during(completed):
        beats.append(Heartbeat.read(run / HEARTBEAT_NAME))

    session = fake_session(during)
    assert train(SAVE_ALWAYS) == 0
    # Between the iterations it evaluates.
    assert [(beat.phase, beat.iteration) for beat in beats[:2]] == [("train", 0), ("evaluate", 1)]
    assert [beat.number for beat in beats] == sorted({beat.number for beat in beats})
    assert beats[0].host_bytes > 1 << 20
    last = Heartbeat.read(run / HEARTBEAT_NAME)
    assert (last.phase, last.iteration, last.max_iterations) == ("close", 5, 5)
    assert session.env.closed


def test_resuming_goes_on_after_the_checkpoint_with_the_guards_counts(run, train, fake_session):
    RunRecord.load(run).update(guard={"action": 5})
    session = fake_session()
    assert train(checkpoint=Path("model_2.pt")) == 0
    assert session.runner.loaded == (Path("model_2.pt"), {"task": "IsaacPC-Reach-Franka-Direct"})
    assert train.output.count("iteration ") == 3
    assert (record(run).completed_iterations, record(run).guard) == (5, {"action": 7})


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_at_the_end_of_the_iteration_with_a_checkpoint(run, train, fake_session, number, code):
    def during(completed):
        if completed == 3:
            signal.raise_signal(number)

    session = fake_session(during)
    assert train() == code
    data = record(run)
    assert (data.status, data.completed_iterations, data.evaluation) == ("interrupted", 3, None)
    assert (run / "checkpoints" / "model_3.pt").is_file()
    assert session.env.closed


@pytest.mark.parametrize(("changes", "completed"), [([SAVE_ALWAYS], 1), ([], 5)], ids=["for the best", "at the end"])
@pytest.mark.usefixtures("has_time")
def test_a_signal_during_an_evaluation_ends_the_run_with_its_checkpoint(
    run, train, fake_session, monkeypatch, changes, completed
):
    session = fake_session()
    monkeypatch.setattr(session.runner, "act", lambda obs: signal.raise_signal(signal.SIGINT) or obs["policy"])
    assert train(*changes) == 130
    data = record(run)
    assert (data.status, data.completed_iterations, data.evaluation) == ("interrupted", completed, None)
    assert data.checkpoints.latest.path == f"checkpoints/model_{completed}.pt"
    assert data.checkpoints.best.evaluation is None


def test_an_error_closes_the_environment_and_keeps_what_was_recorded(run, train, fake_session):
    def during(completed):
        if completed == 4:
            raise RuntimeError("it broke")

    session = fake_session(during)
    with pytest.raises(RuntimeError, match="it broke"):
        train()
    assert session.env.closed
    assert record(run).completed_iterations == 3


def test_a_storm_stops_with_a_checkpoint_and_says_how_to_go_on(run, train, fake_session):
    def during(completed):
        if completed == 3:
            session.env.guard.env_counts += 1

    session = fake_session(during)
    assert train() == ExitCode.STORM
    data = record(run)
    assert (data.status, data.completed_iterations) == ("storm", 4)  # a window is two iterations of 64 steps
    assert data.checkpoints.latest.path == "checkpoints/model_4.pt"
    assert (run / "checkpoints" / "model_4.pt").is_file()
    assert data.harder_physics == {"dt": 1 / 120, "decimation": 4}
    assert f"resume={run} physics.dt=" in data.error
    assert data.error in train.output
    assert data.evaluation is None
    assert session.env.closed


def test_a_learner_without_updates_stops_with_the_weights_from_before(run, train, fake_session, monkeypatch):
    monkeypatch.setitem(METRICS, "Learner/updates", 20.0)
    monkeypatch.setitem(METRICS, "Learner/skipped_updates", 20.0)
    fake_session()
    assert train() == ExitCode.DIVERGED
    data = record(run)
    assert (data.status, data.completed_iterations) == ("failed", 3)
    assert data.checkpoints.latest.path == "checkpoints/model_3.pt"
    assert f"error: {data.error}" in train.output


def test_weights_that_cannot_be_saved_stop_the_run_and_the_checkpoint_before_stays(run, train, fake_session):
    session = fake_session()
    save = session.runner.save

    def refuse(path, extra):
        if session.runner.completed_iterations == 3:
            raise NonFiniteError("actor.0.weight")
        save(path, extra)

    session.runner.save = refuse
    assert train(SAVE_ALWAYS) == ExitCode.DIVERGED
    data = record(run)
    assert (data.status, data.completed_iterations) == ("failed", 3)
    assert data.checkpoints.latest.path == "checkpoints/model_2.pt"
    assert "actor.0.weight" in data.error


def test_a_run_that_drops_contacts_says_so_once_and_records_the_marks(run, train, fake_session):
    session = fake_session()
    session.env.contact_monitor = SimpleNamespace(usage=lambda: USAGE)
    assert train() == 0
    assert train.output.count("physics.constraints=240") == 1
    assert record(run).contacts == USAGE
