# SPDX-License-Identifier: BSD-3-Clause
"""A tuning on disk: what was seen of its trials, its results, and what strangers may have written there."""

import json

import pytest

from isaaclab_pc.cluster.tuning import Tuning, best_trial, read_history, read_trials, score_of, write_csv
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.launch.compose import compose
from isaaclab_pc.launch.run_record import RunRecord

TUNING = Tuning(
    tuner="asha",
    metric="success_rate",
    max_iterations=10,
    grace_iterations=1,
    fixed=("task=reach",),
    trials={name: {"seed": str(number), "points.sampler": "fps"} for number, name in enumerate(("000", "001", "002"))},
    max_failures=5,
    cpus=1,
    gpus=0,
    memory=0,
)


def add_run(folder, name, status, **fields):
    (folder / name).mkdir()
    record = RunRecord.create(folder / name, compose(["num_envs=8", "device=cpu"]), "reach")
    record.update(status=status, **fields)
    return record


def test_a_tuning_is_read_as_it_was_written(tmp_path):
    TUNING.save(tmp_path)
    assert Tuning.load(tmp_path) == TUNING
    assert TUNING.searched == ("seed", "points.sampler")


@pytest.mark.parametrize(
    "change",
    [{"trials": {}}, {"trials": {"../x": {}}}, {"trials": {"/etc": {}}}, {"tuner": "x"}, {"cpus": -1}, {"code": "x"}],
    ids=str,
)
def test_what_strangers_wrote_is_refused_in_one_line(tmp_path, change):
    (tmp_path / "tuning.json").write_text(json.dumps(TUNING.to_dict() | change), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"tuning\.json is not a tuning") as error:
        Tuning.load(tmp_path)
    assert "\n" not in str(error.value)


def test_a_folder_without_one_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"is not the folder of a tuning: it has no tuning\.json"):
        Tuning.load(tmp_path)


def test_half_a_line_of_a_killed_script_is_passed_over(tmp_path):
    lines = ['{"trial": "000", "iteration": 3, "score": 0.5}', '{"trial": "001", "over": true}', "[]", '{"trial": "00']
    (tmp_path / "history.jsonl").write_text("\n".join(lines), encoding="utf-8")
    history = read_history(tmp_path)
    assert history["000"].scores == [(3, 0.5)]
    assert history["001"].is_over
    assert not history["000"].is_over


def test_a_run_that_the_tuner_ended_is_not_one_that_was_interrupted(tmp_path):
    add_run(tmp_path, "000", "interrupted", metrics={"success_rate": 0.9})
    add_run(tmp_path, "001", "interrupted", metrics={"success_rate": 0.2})
    (tmp_path / "history.jsonl").write_text('{"trial": "001", "over": true}', encoding="utf-8")
    trials = read_trials(tmp_path, TUNING)
    assert [trial.status for trial in trials] == ["interrupted", "stopped early", "waiting"]
    assert best_trial(trials) is trials[1]

    add_run(tmp_path, "002", "completed", success=0.1, metrics={"success_rate": 0.3})
    trials = read_trials(tmp_path, TUNING)
    assert best_trial(trials) is trials[2], "it came to its end"
    assert trials[2].score == 0.1, "the evaluation counts, not the training"

    write_csv(tmp_path / "results.csv", TUNING, trials)
    lines = (tmp_path / "results.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "trial,seed,points.sampler,status,iterations,success_rate,success,seconds,env_steps,restarts"
    assert lines[3] == "002,2,fps,completed,0,0.1,0.1,0.0,0,0"


def test_while_a_teacher_acts_only_evaluations_count(tmp_path):
    record = add_run(tmp_path, "000", "running", algorithm="distill", metrics={"success_rate": 0.9, "mean_reward": 2.0})
    assert score_of(record.data, "success_rate") is None
    assert score_of(record.data, "mean_reward") == 2.0
    record.update(success=0.4)
    assert score_of(record.data, "success_rate") == 0.4
