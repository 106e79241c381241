# SPDX-License-Identifier: BSD-3-Clause
"""Trying a number of environments around a fake session."""

import json
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.num_envs.search_settings import SearchSettings
from isaaclab_pc.num_envs.trial import Outcome, Trial
from isaaclab_pc.run.jobs import ProbeJob
from isaaclab_pc.workers import probe
from tests.unit.workers.fake_session import METRICS, SETTINGS, USAGE, FakeRunner


@pytest.fixture
def job(tmp_path, monkeypatch):
    """Make the job of trying a size, as briefly as it may."""
    monkeypatch.setattr(probe, "PROBE_SECONDS", 0.0)

    def make(size, **changes):
        return ProbeJob(compose(SETTINGS).with_values(changes), size, tmp_path / "trial.json")

    return make


def test_a_probe_measures_training_without_the_first_iteration(job, fake_session, tmp_path):
    session = fake_session()
    assert probe.probe(job(16)) == 0
    trial = Trial.read(tmp_path / "trial.json")
    assert (trial.num_envs, trial.outcome) == (16, Outcome.FITS)
    assert trial.frames_per_second == 256 / (0.5 + 1.5)
    assert trial.seconds == {"build": 0.1, "rollout": 0.5, "update": 1.5}
    assert (trial.samples, trial.minibatch) == (256, (64,))
    assert (trial.contacts, trial.faults) == (None, 2)
    assert session.runner.completed_iterations == 2
    assert trial.memory is not None
    assert 0 < trial.memory.before_env <= trial.memory.after_env
    assert trial.memory.tensors["rollout storage"] == 1024


@pytest.mark.parametrize(
    ("given", "num_envs", "outcome", "most_envs"),
    [
        ({"num_envs": "auto"}, 32, Outcome.FITS, 32),
        ({"num_envs": "auto"}, 33, Outcome.TOO_MANY, 32),
        ({"num_envs": "auto", "scaling.min": 40}, 40, Outcome.FITS, 40),
        ({"num_envs": "auto", "scaling.objective": "memory"}, 33, Outcome.FITS, None),
        ({"num_envs": 33}, 33, Outcome.FITS, None),
    ],
)
def test_a_search_on_a_gpu_tries_no_more_than_an_update_of_the_agent_has_samples_for(
    job, fake_session, tmp_path, monkeypatch, given, num_envs, outcome, most_envs
):
    # The probe itself runs on the CPU.
    monkeypatch.setattr(SearchSettings, "on_gpu", True)
    fake_session()
    assert probe.probe(job(num_envs, device="cpu", **given)) == 0
    trial = Trial.read(tmp_path / "trial.json")
    assert (trial.num_envs, trial.outcome, trial.most_envs) == (num_envs, outcome, most_envs)
    assert ("samples_per_update" in trial.detail) == (outcome is Outcome.TOO_MANY)


def test_a_probe_leaves_word_of_what_it_is_doing(job, fake_session, tmp_path):
    phases = []

    def during(completed):
        for _ in range(64):
            session.env.step(torch.zeros(4, 1))
            phases.append(json.loads((tmp_path / "trial.phase").read_text(encoding="utf-8")))

    session = fake_session(during)
    assert probe.probe(job(16)) == 0
    sizes = {"minibatch_size": 64, "replay_samples": 0, "chunk": 48}
    rollout, update = ({"phase": phase, **sizes} for phase in ("rollout", "update"))
    assert phases == 2 * (63 * [rollout] + [update])


@pytest.mark.parametrize(
    ("usage", "faults", "loss", "outcome", "detail"),
    [
        (None, 0, 0.5, Outcome.FITS, ""),
        (None, 51, 0.5, Outcome.FITS, ""),
        (None, 52, 0.5, Outcome.NAN, "52 of 512"),
        (None, 0, float("nan"), Outcome.NAN, "loss/value"),
        (None, 0, float("inf"), Outcome.NAN, "loss/value"),
        (USAGE, 0, 0.5, Outcome.OVERFLOW, "physics.constraints=240"),
        (USAGE, 500, float("nan"), Outcome.OVERFLOW, "physics.constraints=240"),
    ],
)
def test_a_probe_that_trained_badly_does_not_fit_and_says_why(
    job, fake_session, tmp_path, monkeypatch, usage, faults, loss, outcome, detail
):
    monkeypatch.setitem(METRICS, "loss/value", loss)
    session = fake_session()
    session.env.guard.counts = {"state": torch.tensor(faults)}
    session.env.contact_monitor = None if usage is None else SimpleNamespace(usage=lambda: usage)
    assert probe.probe(job(16)) == 0
    trial = Trial.read(tmp_path / "trial.json")
    assert trial.outcome is outcome
    assert (detail in trial.detail) if detail else not trial.detail
    assert (trial.contacts, trial.faults) == (usage, faults)
    assert (trial.frames_per_second > 0) == (outcome is Outcome.FITS)


class ClockedRunner(FakeRunner):
    """Its iterations take so many seconds on its clock."""

    def __init__(self, *seconds):
        super().__init__(lambda completed: setattr(self, "now", self.now + seconds[min(completed, len(seconds)) - 1]))
        self.now = 0.0

    def clock(self):
        return self.now


@pytest.mark.parametrize(
    ("seconds", "briefly", "iterations", "measured"),
    [((30.0, 1.0), False, 6, 5), ((30.0,), True, 1, 1), ((3.0,), True, 2, 1), ((1.0,), True, 5, 4)],
)
def test_it_measures_for_five_seconds_which_the_first_iteration_may_use_up_where_memory_alone_counts(
    seconds, briefly, iterations, measured
):
    runner: Any = ClockedRunner(*seconds)
    assert len(probe._measure(runner, briefly=briefly, clock=runner.clock)) == measured
    assert runner.completed_iterations == iterations


@pytest.mark.parametrize(
    ("given", "iterations"),
    [({}, 2), ({"num_envs": "auto", "scaling.objective": "memory"}, 1), ({"scaling.objective": "memory"}, 2)],
)
def test_a_search_for_memory_alone_trains_as_briefly_as_it_may(job, fake_session, given, iterations):
    session = fake_session()
    assert probe.probe(job(16, device="cpu", **given)) == 0
    assert session.runner.completed_iterations == iterations


def test_the_least_times_count(job, fake_session, tmp_path, monkeypatch):
    seconds = [{"collect_s": 3.24, "learn_s": 1.3}, {"collect_s": 2.06, "learn_s": 5.12}]
    monkeypatch.setattr(probe, "_measure", lambda runner, briefly: seconds)
    session = fake_session()
    session.runner.completed_iterations = 2
    assert probe.probe(job(16)) == 0
    trial = Trial.read(tmp_path / "trial.json")
    assert trial.seconds == {"build": 0.1, "rollout": 2.06, "update": 1.3}
    assert trial.frames_per_second == 256 / (2.06 + 1.3)


def test_minibatches_of_a_recurrent_policy_are_told_with_their_steps(job, fake_session, tmp_path):
    fake_session()
    assert probe.probe(job(16, recurrent="gru")) == 0
    assert Trial.read(tmp_path / "trial.json").minibatch == (64, 64)


def test_what_was_printed_stands_in_the_log_before_the_trial_is_handed_over(tmp_path):
    # C buffers what it prints into a file or a pipe, and the parent ends the process as soon as the trial is there.
    code = f"""
import ctypes, os, signal
from pathlib import Path
from isaaclab_pc.cli.compose import compose
from isaaclab_pc.run.jobs import ProbeJob
from isaaclab_pc.num_envs.trial import Outcome, Trial
from isaaclab_pc.workers.probe import _hand_over
print("Python's")
ctypes.CDLL(None).puts(b"the solver's")
_hand_over(Trial(16, Outcome.FITS), Path({str(tmp_path / "trial.json")!r}))
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert set(done.stdout.splitlines()) == {"Python's", "the solver's"}
    assert Trial.read(tmp_path / "trial.json").fits


def test_a_probe_reports_wrong_settings_as_such(job, fake_session, tmp_path):
    fake_session(error=ConfigError("num_envs"))
    with pytest.raises(ConfigError):
        probe.probe(job(16))
    trial = Trial.read(tmp_path / "trial.json")
    assert (trial.outcome, trial.detail, trial.config_error) == (Outcome.ERROR, "num_envs", True)
