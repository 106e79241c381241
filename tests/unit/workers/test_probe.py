# SPDX-License-Identifier: BSD-3-Clause
"""Trying a number of environments around a fake session."""

import json
from types import SimpleNamespace

import pytest
import torch

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.scaling import Outcome, SearchSettings, Trial
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.workers import probe
from tests.unit.workers.fake_session import METRICS, USAGE, FakeRunner


def test_a_probe_measures_training_without_the_first_iteration(run, fake_session, tmp_path, monkeypatch):
    monkeypatch.setattr(probe, "PROBE_SECONDS", 0.0)
    session = fake_session()
    assert probe.probe(run, 16, tmp_path / "trial.json") == 0
    trial = Trial.read(tmp_path / "trial.json")
    assert (trial.num_envs, trial.outcome) == (16, Outcome.FITS)
    assert trial.frames_per_second == 256 / (0.5 + 1.5)
    assert trial.seconds == {"build": 0.1, "rollout": 0.5, "update": 1.5}
    assert (trial.contacts, trial.faults) == (None, 2)
    assert trial.configuration == "points 16"
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
        ({"num_envs": "auto", "scaling.granule": 48}, 96, Outcome.TOO_MANY, 48),
        ({"num_envs": "auto", "scaling.objective": "memory"}, 33, Outcome.FITS, None),
        ({"num_envs": 33}, 33, Outcome.FITS, None),
    ],
)
def test_a_search_on_a_gpu_tries_no_more_than_an_update_of_the_agent_has_samples_for(
    run, fake_session, tmp_path, monkeypatch, given, num_envs, outcome, most_envs
):
    monkeypatch.setattr(probe, "PROBE_SECONDS", 0.0)
    # The probe itself runs on the CPU.
    monkeypatch.setattr(SearchSettings, "on_gpu", True)
    RunSettings.load(run).with_values({"device": "cpu", **given}).save(run)
    fake_session()
    assert probe.probe(run, num_envs, tmp_path / "trial.json") == 0
    trial = Trial.read(tmp_path / "trial.json")
    assert (trial.num_envs, trial.outcome, trial.most_envs) == (num_envs, outcome, most_envs)
    refused = f"more than {most_envs} learn from more samples at once than the agent asks for"
    assert trial.detail == (refused if outcome is Outcome.TOO_MANY else "")


def test_a_probe_leaves_word_of_what_it_is_doing(run, fake_session, tmp_path, monkeypatch):
    monkeypatch.setattr(probe, "PROBE_SECONDS", 0.0)
    phases = []

    def during(completed):
        for _ in range(64):
            session.env.step(None)
            phases.append(json.loads((tmp_path / "trial.phase").read_text(encoding="utf-8")))

    session = fake_session(during)
    assert probe.probe(run, 16, tmp_path / "trial.json") == 0
    sizes = {"minibatch_size": 64, "replay_samples": 0, "chunk": 48}
    rollout, update = ({"phase": phase, **sizes} for phase in ("rollout", "update"))
    assert phases == 2 * (63 * [rollout] + [update])


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
