# SPDX-License-Identifier: BSD-3-Clause
"""The worker around a fake session: real config, record, checkpoints, progress, signals and exit codes."""

import contextlib
import io
import json
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.launch.child_process import ExitCode
from isaaclab_pc.launch.compose import compose, save_config
from isaaclab_pc.launch.run_record import RunRecord
from isaaclab_pc.output_filter import Repeats
from isaaclab_pc.runners import Decision, NonFiniteError
from isaaclab_pc.scaling import BatchPlan, Outcome, Trial
from isaaclab_pc.tasks.reach.reach_env_cfg import ReachEnvCfg
from isaaclab_pc.workers import checkpoint_keeper as checkpoints
from isaaclab_pc.workers import probe
from isaaclab_pc.workers import session as session_module
from isaaclab_pc.workers import train as worker

METRICS = {"mean_reward": 1.0, "success_rate": 0.5, "collect_s": 0.5, "learn_s": 1.5, "env_steps_per_s": 128.0}


class FakeEnv:
    """Episodes of three steps that all succeed."""

    num_envs = 4
    device = "cpu"

    def __init__(self):
        self.unwrapped = self
        self.cfg = SimpleNamespace(sim=SimpleNamespace(physics=None))
        self.single_action_space = SimpleNamespace(shape=(1,))
        self.single_observation_space = SimpleNamespace(spaces={})
        self.scene = SimpleNamespace(sensors={})
        self.closed = False
        self.guard = SimpleNamespace(
            counts={"action": torch.tensor(2)},
            env_counts=torch.zeros(4, dtype=torch.long),
            benched=torch.zeros(4, dtype=torch.bool),
        )
        self.episode_success = torch.ones(4, dtype=torch.bool)
        self.episode_time_to_success = torch.full((4,), 0.2)

    def reset(self, seed=None):
        self.steps = 0
        return {"policy": torch.zeros(4, 1)}, {}

    def step(self, actions):
        self.steps += 1
        done = torch.full((4,), self.steps % 3 == 0)
        return {"policy": torch.zeros(4, 1)}, torch.ones(4), done, torch.zeros_like(done), {}

    def _pre_physics_step(self, actions):
        pass

    def _get_dones(self):
        pass

    def close(self):
        pass


class FakeRunner:
    """Iterates as adapters do; ``during`` is called within each iteration."""

    def __init__(self, during=None):
        self.completed_iterations = 0
        self.loaded = None
        self._during = during or (lambda completed: None)

    def train(self, max_iterations, on_iteration):
        while self.completed_iterations < max_iterations:
            self.completed_iterations += 1
            self._during(self.completed_iterations)
            if on_iteration(self.completed_iterations, METRICS) is Decision.STOP:
                return

    def save(self, path, extra):
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(extra), encoding="utf-8")

    def load(self, path, expected=None):
        self.loaded = (path, expected)
        self.completed_iterations = 2
        return {}

    def act(self, obs):
        return obs["policy"]

    def holders(self):
        return {"rollout storage": torch.zeros(64, 4), "network weights": torch.zeros(10), "optimizer": {}}


@pytest.fixture
def run(tmp_path):
    """Make a run's folder as the parent does; return the config's path."""
    config = compose(["num_envs=4", "max_iterations=5", "eval.episodes=8"])
    save_config(tmp_path / "config.yaml", config)
    RunRecord.create(tmp_path, config, "reach")
    return tmp_path / "config.yaml"


@pytest.fixture
def fake_session(monkeypatch):
    """Put a session with fakes in the place of a simulator."""

    def install(during=None, error=None):
        session = SimpleNamespace(env=FakeEnv(), runner=FakeRunner(during), build_s=0.1, warnings=["too many threads"])

        @contextlib.contextmanager
        def open_session(config, num_envs, experiment, run_dir, watch=None):
            if error is not None:
                raise error
            session.resolved = SimpleNamespace(
                max_iterations=config["max_iterations"],
                backend="ovphysx",
                device="cpu",
                env_cfg=ReachEnvCfg(),
                plan=BatchPlan(horizon=64, num_minibatches=4, minibatch_size=64),
            )
            if watch is not None:
                watch.before_env()
                watch.after_env(session.env, session.resolved.plan)
            try:
                yield session
            finally:
                session.env.closed = True

        monkeypatch.setattr(session_module, "open_session", open_session)
        return session

    return install


def record(run):
    return RunRecord.load(run.parent).data


def test_training_ends_with_a_checkpoint_and_an_evaluation(run, fake_session):
    session, stream = fake_session(), io.StringIO()
    assert worker.train(run, None, stream) == 0
    assert stream.getvalue().count("warning: too many threads\n") == 1
    data = record(run)
    assert data["status"] == "completed"
    assert data["completed_iterations"] == 5
    assert data["env_steps"] == 5 * 256
    assert data["guard"] == {"action": 2}
    assert data["checkpoints"]["latest"]["path"] == "checkpoints/model_5.pt"
    assert data["evaluation"]["episodes"] == 8
    assert data["success"] == 1.0
    assert session.env.closed
    output = stream.getvalue()
    assert output.count("iteration ") == 5
    assert "success rate 100.0 % over 8 episodes, mean return 3.00, mean time to success 0.20 s" in output


def test_resuming_goes_on_after_the_checkpoint(run, fake_session):
    session, stream = fake_session(), io.StringIO()
    assert worker.train(run, Path("model_2.pt"), stream) == 0
    assert session.runner.loaded == (Path("model_2.pt"), {"task": "IsaacPC-Reach-Franka-Direct"})
    assert stream.getvalue().count("iteration ") == 3
    assert record(run)["completed_iterations"] == 5


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_at_the_end_of_the_iteration_with_a_checkpoint(run, fake_session, number, code):
    def during(completed):
        if completed == 3:
            signal.raise_signal(number)

    session, stream = fake_session(during), io.StringIO()
    assert worker.train(run, None, stream) == code
    data = record(run)
    assert data["status"] == "interrupted"
    assert data["completed_iterations"] == 3
    assert (run.parent / "checkpoints" / "model_3.pt").is_file()
    assert session.env.closed
    assert "evaluation" not in data


def test_a_signal_during_the_evaluation_ends_it(run, fake_session, monkeypatch):
    session = fake_session()
    monkeypatch.setattr(session.runner, "act", lambda obs: signal.raise_signal(signal.SIGINT) or obs["policy"])
    assert worker.train(run, None, io.StringIO()) == 130
    data = record(run)
    assert (data["status"], data["completed_iterations"]) == ("interrupted", 5)
    assert "evaluation" not in data


def test_an_error_closes_the_environment_and_keeps_what_was_recorded(run, fake_session):
    def during(completed):
        if completed == 4:
            raise RuntimeError("it broke")

    session = fake_session(during)
    with pytest.raises(RuntimeError, match="it broke"):
        worker.train(run, None, io.StringIO())
    assert session.env.closed
    assert record(run)["completed_iterations"] == 3


def test_a_storm_stops_with_a_checkpoint_and_says_how_to_go_on(run, fake_session):
    def during(completed):
        if completed == 3:
            session.env.guard.env_counts += 1

    session, stream = fake_session(during), io.StringIO()
    assert worker.train(run, None, stream) == ExitCode.STORM
    data = record(run)
    assert (data["status"], data["completed_iterations"]) == ("storm", 4)  # a window is two iterations of 64 steps
    assert data["checkpoints"]["latest"]["path"] == "checkpoints/model_4.pt"
    assert (run.parent / "checkpoints" / "model_4.pt").is_file()
    assert data["harder_physics"] == {"dt": 1 / 120, "decimation": 4}
    assert "4 of 4 environments failed within 128 steps" in data["error"]
    assert f"scripts/train.py resume={run.parent} physics.dt=0.008333333333333333 physics.decimation=4\n" in (
        stream.getvalue()
    )
    assert "evaluation" not in data
    assert session.env.closed


def test_storms_are_ridden_out_where_the_user_says_so(run, fake_session):
    config = compose(["num_envs=4", "max_iterations=5", "eval.episodes=8", "guard.storm=null"])
    save_config(run, config)
    session = fake_session(lambda completed: session.env.guard.env_counts.add_(1))
    assert worker.train(run, None, io.StringIO()) == 0
    assert record(run)["status"] == "completed"


def test_a_learner_without_updates_stops_with_the_weights_from_before(run, fake_session, monkeypatch):
    monkeypatch.setitem(METRICS, "Learner/updates", 20.0)
    monkeypatch.setitem(METRICS, "Learner/skipped_updates", 20.0)
    stream = io.StringIO()
    fake_session()
    assert worker.train(run, None, stream) == ExitCode.DIVERGED
    data = record(run)
    assert (data["status"], data["completed_iterations"]) == ("failed", 3)
    assert data["checkpoints"]["latest"]["path"] == "checkpoints/model_3.pt"
    assert "all updates of 3 iterations in a row were skipped" in data["error"]
    assert "error: the learner's loss, gradient or weights are not finite" in stream.getvalue()


def test_weights_that_cannot_be_saved_stop_the_run_and_the_checkpoint_before_stays(run, fake_session, monkeypatch):
    monkeypatch.setattr(checkpoints, "INTERVAL_SECONDS", 0.0)
    session = fake_session()
    save = session.runner.save

    def refuse(path, extra):
        if session.runner.completed_iterations == 3:
            raise NonFiniteError("weights are not finite")
        save(path, extra)

    session.runner.save = refuse
    assert worker.train(run, None, io.StringIO()) == ExitCode.DIVERGED
    data = record(run)
    assert (data["status"], data["completed_iterations"]) == ("failed", 3)
    assert data["checkpoints"]["latest"]["path"] == "checkpoints/model_2.pt"
    assert "weights are not finite" in data["error"]


def test_playing_writes_the_result_beside_its_config(run, fake_session):
    session, stream = fake_session(), io.StringIO()
    assert worker.play(run, Path("model_2.pt"), stream) == 0
    result = json.loads((run.parent / "result.json").read_text(encoding="utf-8"))
    assert (result["checkpoint"], result["success_rate"], result["episodes"]) == ("model_2.pt", 1.0, 8)
    assert session.runner.loaded == (Path("model_2.pt"), {"task": "IsaacPC-Reach-Franka-Direct"})
    assert "success rate 100.0 %" in stream.getvalue()


def test_a_probe_measures_training_without_the_first_iteration(run, fake_session, tmp_path, monkeypatch):
    monkeypatch.setattr(probe, "PROBE_SECONDS", 0.0)
    session = fake_session()
    assert probe.probe(run, 16, tmp_path / "trial.json") == 0
    trial = Trial.read(tmp_path / "trial.json")
    assert (trial.num_envs, trial.outcome) == (16, Outcome.FITS)
    assert trial.frames_per_second == 256 / (0.5 + 1.5)
    assert trial.seconds == {"build": 0.1, "rollout": 0.5, "update": 1.5}
    assert (trial.contacts, trial.faults) == (None, 2)
    assert session.runner.completed_iterations == 2
    assert trial.memory is not None
    assert 0 < trial.memory.before_env <= trial.memory.after_env
    assert trial.memory.tensors["rollout storage"] == 1024


def test_a_probe_leaves_word_of_what_it_is_doing(run, fake_session, tmp_path, monkeypatch):
    monkeypatch.setattr(probe, "PROBE_SECONDS", 0.0)
    phases = []

    def during(completed):
        for _ in range(64):
            session.env.step(None)
            phases.append(json.loads((tmp_path / "trial.phase").read_text(encoding="utf-8")))

    session = fake_session(during)
    assert probe.probe(run, 16, tmp_path / "trial.json") == 0
    rollout, update = ({"phase": phase, "minibatch_size": 64} for phase in ("rollout", "update"))
    assert phases == 2 * (63 * [rollout] + [update])


USAGE = {
    "num_envs": 4,
    "contacts": {"used": 10, "capacity": 40, "overflowed": False},
    "constraints": {"used": 80, "capacity": 50, "overflowed": True},
    "share": 1.6,
}


@pytest.mark.parametrize(
    ("usage", "faults", "loss", "outcome", "detail"),
    [
        (None, 0, 0.5, Outcome.FITS, ""),
        (None, 51, 0.5, Outcome.FITS, ""),
        (None, 52, 0.5, Outcome.NAN, "52 of 512 environment steps ended by a fault"),
        (None, 0, float("nan"), Outcome.NAN, "loss/value is nan"),
        (None, 0, float("inf"), Outcome.NAN, "loss/value is inf"),
        (USAGE, 0, 0.5, Outcome.OVERFLOW, "set physics.constraints=240"),
        (USAGE, 500, float("nan"), Outcome.OVERFLOW, "set physics.constraints=240"),
    ],
)
def test_a_probe_that_trained_badly_does_not_fit_and_says_why(
    run, fake_session, tmp_path, monkeypatch, usage, faults, loss, outcome, detail
):
    monkeypatch.setattr(probe, "PROBE_SECONDS", 0.0)
    monkeypatch.setitem(METRICS, "loss/value", loss)
    session = fake_session()
    session.env.guard.counts = {"state": torch.tensor(faults)}
    session.env.contact_monitor = None if usage is None else SimpleNamespace(usage=lambda: usage)
    assert probe.probe(run, 16, tmp_path / "trial.json") == 0
    trial = Trial.read(tmp_path / "trial.json")
    assert trial.outcome is outcome
    assert (detail in trial.detail) if detail else not trial.detail
    assert (trial.contacts, trial.faults) == (usage, faults)
    assert (trial.frames_per_second > 0) == (outcome is Outcome.FITS)


def test_a_run_that_drops_contacts_says_so_once_and_records_the_marks(run, fake_session):
    session, stream = fake_session(), io.StringIO()
    session.env.contact_monitor = SimpleNamespace(usage=lambda: USAGE)
    assert worker.train(run, None, stream) == 0
    assert stream.getvalue().count("warning: the solver drops contacts") == 1
    assert "set physics.constraints=240" in stream.getvalue()
    assert record(run)["contacts"] == USAGE


def test_a_flood_in_the_log_is_shown_once_while_it_trains(run, fake_session):
    log, repeats, stream = run.parent / worker.LOG_NAME, Repeats(), io.StringIO()
    log.write_text("(10 such lines so far) of an earlier start\n", encoding="utf-8")

    def flood(completed):
        with log.open("ab") as file:
            for number in range(60):
                file.write(repeats.feed(b"nefc overflow %d\n" % number))

    fake_session(flood)
    assert worker.train(run, None, stream) == 0
    assert stream.getvalue().count("over and over") == 1
    assert "warning: native code prints this over and over: nefc overflow 9\n" in stream.getvalue()


def test_short_iterations_are_measured_more_than_once():
    runner, now = FakeRunner(), iter(range(100))
    probe._measure(runner, clock=lambda: float(next(now)))
    # The clock is read after the first iteration and after every later one; it ticks a second each time.
    assert runner.completed_iterations == 1 + probe.PROBE_SECONDS


def test_a_probe_reports_wrong_settings_as_such(run, fake_session, tmp_path):
    fake_session(error=ConfigError("no such field"))
    with pytest.raises(ConfigError):
        probe.probe(run, 16, tmp_path / "trial.json")
    trial = Trial.read(tmp_path / "trial.json")
    assert (trial.outcome, trial.detail) == (Outcome.ERROR, "no such field")
    assert trial.config_error


@pytest.mark.parametrize(
    ("behaviour", "code", "shown", "logged"),
    [
        ("raise ConfigError('no such field')", 2, "error: no such field\n", ""),
        ("raise RuntimeError('it broke')", 1, "", "RuntimeError: it broke"),
        ("raise SystemExit(1)", 1, "", ""),
        ("signal.raise_signal(signal.SIGINT)", 130, "", ""),
        (
            "print('chatter'); os.system('echo native'); stream.write('progress\\n'); return 0",
            0,
            "progress\n",
            "native",
        ),
    ],
)
def test_the_user_sees_progress_and_errors_while_chatter_goes_to_the_log(run, behaviour, code, shown, logged):
    driver = f"""
        import os, signal, sys
        from isaaclab_pc.errors import ConfigError
        from isaaclab_pc.workers import train as worker
        def train(config, checkpoint, stream):
            {behaviour}
        worker.train = train
        sys.exit(worker.main(["train", {str(run)!r}]))
    """
    command = [sys.executable, "-c", textwrap.dedent(driver)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (code, shown, "")
    assert logged in (run.parent / "worker.log").read_text(encoding="utf-8")
