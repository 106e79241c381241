# SPDX-License-Identifier: BSD-3-Clause
"""A tuning on disk: how its trials stand, what they report, and what strangers may have written there."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.cluster import ray_tune
from isaaclab_pc.cluster.ray_tune import RunTrial
from isaaclab_pc.cluster.tuning import TrialShare, Tuning, best_trial, read_scores, read_trial, read_trials
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.run.evaluation import Evaluation, Success
from isaaclab_pc.run.iteration_log import append_iteration
from isaaclab_pc.run.record import CurvePoint, RunRecord

TUNING = Tuning(
    tuner="asha",
    metric="success_rate",
    max_iterations=10,
    grace_iterations=1,
    fixed=("task=reach",),
    trials={name: {"seed": str(number), "points.sampler": "fps"} for number, name in enumerate(("000", "001", "002"))},
    max_failures=5,
    share=TrialShare(1, 1, 0.0, 1),
)


def add_run(folder: Path, name: str, status: str, **fields: Any) -> RunRecord:
    (folder / name).mkdir()
    record = RunRecord.create(folder / name, compose(["num_envs=8", "device=cpu"]))
    record.update(status=status, **fields)
    return record


def test_a_tuning_is_read_as_it_was_written(tmp_path):
    TUNING.write(tmp_path / "tuning.json")
    assert Tuning.load(tmp_path) == TUNING


@pytest.mark.parametrize(
    "change",
    [{"trials": {}}, {"trials": {"../x": {}}}, {"trials": {"/etc": {}}}, {"tuner": "x"}, {"share": {}}, {"code": "x"}],
    ids=str,
)
def test_what_strangers_wrote_is_refused_in_one_line(tmp_path, change):
    (tmp_path / "tuning.json").write_text(json.dumps(TUNING.to_dict() | change), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"tuning\.json") as error:
        Tuning.load(tmp_path)
    assert "\n" not in str(error.value)


def test_the_best_trial_came_to_its_end_or_was_ended_by_the_tuner(tmp_path):
    add_run(tmp_path, "000", "interrupted", metrics={"success_rate": 0.9})
    add_run(tmp_path, "001", "interrupted", metrics={"success_rate": 0.2})
    (tmp_path / "001" / "stopped_early").touch()
    trials = read_trials(tmp_path, TUNING)
    assert [trial.status for trial in trials] == ["interrupted", "stopped early", "waiting"]
    assert [trial.is_over for trial in trials] == [False, True, False]
    assert best_trial(trials) is trials[1]

    add_run(tmp_path, "002", "completed", success=0.1, metrics={"success_rate": 0.3})
    trials = read_trials(tmp_path, TUNING)
    assert best_trial(trials) is trials[2], "it came to its end"
    assert trials[2].score == 0.1, "the evaluation counts, not the training"


def test_while_a_teacher_acts_only_evaluations_count(tmp_path):
    record = add_run(tmp_path, "000", "running", algorithm="distill", metrics={"success_rate": 0.9, "mean_reward": 2.0})
    append_iteration(record.folder, 1, 0, 0.0, {"success_rate": 0.9, "mean_reward": 2.0})
    evaluation = Evaluation(4, 0, Success(0.25, 0.1, 0.5), None, None, None)
    assert read_trial(record.folder, "success_rate").score is None
    assert read_scores(record.folder, "success_rate") == []
    assert read_scores(record.folder, "mean_reward") == [(1, 2.0)]

    point = CurvePoint(iteration=5, env_steps=0, wall_s=1.0, evaluation_s=1.0, evaluation=evaluation)
    record.update(evaluations=[point])
    assert read_scores(record.folder, "success_rate") == [(5, 0.25)]
    assert read_trial(record.folder, "success_rate").score == 0.25
    record.update(success=0.4)
    assert read_trial(record.folder, "success_rate").score == 0.4


def run_trial(tuning: Path, name: str = "000", program: str = "") -> RunTrial:
    """A trial as Ray sets it up; its own initialiser wants a worker."""
    trial = object.__new__(RunTrial)
    given = {"tuning": str(tuning), "trial": name, "metric": "success_rate", "cwd": str(tuning)}
    trial.setup({**given, "program": ["-c", program]})
    return trial


def test_a_trial_that_goes_on_reports_its_iterations_again_and_ends_with_its_evaluation(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    record = add_run(tmp_path, "000", "completed", completed_iterations=2, success=0.75)
    for iteration, rate in enumerate((0.1, 0.2), start=1):
        append_iteration(record.folder, iteration, 0, 0.0, {"success_rate": rate})
    trial = run_trial(tmp_path)
    reports = [trial.step() for _ in range(3)]
    told = [(report["iteration"], report["score"], report["done"]) for report in reports]
    assert told == [(1, 0.1, False), (2, 0.2, False), (2, 0.75, True)]


def test_a_trial_whose_script_is_lost_fails_for_ray_to_try_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ray_tune, "_STEP_SECONDS", 60.0)
    add_run(tmp_path, "000", "running")
    trial = run_trial(tmp_path, program="raise SystemExit(7)")
    with pytest.raises(RuntimeError, match="7"):
        trial.step()
    trial.cleanup()


def test_where_no_gpu_is_left_for_a_trial_nothing_waits_for_one(tmp_path):
    tuning = replace(TUNING, share=TrialShare(1, 1, 0.5, 2))
    with pytest.raises(ConfigError, match=r"has no GPU, and a trial of .* needs one"):
        ray_tune.run_trials(tmp_path, tuning, (), {"num_cpus": 8, "num_gpus": 0}, lambda: None)
