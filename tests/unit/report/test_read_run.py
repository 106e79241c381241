# SPDX-License-Identifier: BSD-3-Clause
"""A stranger's folder: files beside the record that cannot be read are named, and the rest is shown."""

import json
import math

import pytest

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.report.read_run import MAX_EVENTS, read_run
from isaaclab_pc.run.iteration_log import append_iteration
from tests.unit.report.run_folder import edit, make_faulty, make_run


@pytest.mark.parametrize("content", ["", "[1]", "{}", '{"a": 1}', "[" * 100_000, "\x00", '"\\ud800"'])
def test_a_folder_without_the_record_of_a_run_is_refused(tmp_path, content):
    with pytest.raises(ConfigError, match=r"run\.json"):
        read_run(tmp_path)
    (tmp_path / "run.json").write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"run\.json"):
        read_run(tmp_path)


@pytest.mark.parametrize("field", ["status", "wall_s", "evaluation", "num_envs", "versions"])
def test_an_odd_field_of_the_record_is_named_and_refused(tmp_path, field):
    folder = make_run(tmp_path / "run").folder
    edit(folder, **{field: ["odd"]})
    with pytest.raises(ConfigError, match=rf"run\.json is not the record of a run: {field}"):
        read_run(folder)


@pytest.mark.parametrize("trial", [{"num_envs": -3}, {}])
def test_an_odd_trial_is_said(tmp_path, trial):
    folder = make_run(tmp_path / "run").folder
    edit(folder, trials=[trial])
    run = read_run(folder)
    assert run.trials == []
    assert run.problems[0].startswith("run.json, trials.0")


def test_everything_of_a_run_is_read(tmp_path):
    run = read_run(make_faulty(tmp_path / "run").folder)
    assert run.problems == []
    assert run.settings is not None
    assert [entry.iteration for entry in run.iterations] == [1, 2, 3, 4, 5, 6, 7]
    assert [name for _, name, _ in run.events] == ["died", "restart", "recovered", "stopped"]
    failures = "environment 3, step 77: joint_velocity; environment 5, step 77: action, joint_velocity"
    assert [text for _, text in run.dumps] == [failures]
    assert len(run.trials) == 4
    assert run.ledger is not None
    assert run.ledger.num_envs == 128
    assert json.loads((run.folder / "run.json").read_text(encoding="utf-8"))["guard"] == run.data.guard


def test_odd_files_beside_the_record_are_said(tmp_path):
    folder = make_faulty(tmp_path / "run").folder
    (folder / "dumps" / "dump_1.npz").write_bytes(b"no archive")
    (folder / "config.yaml").write_text("task: [", encoding="utf-8")
    lines = ['{"event": "died", "time": "never"}', "[]", "no json", *['{"event": "stopped"}'] * MAX_EVENTS]
    (folder / "events.jsonl").write_text("\n".join(lines), encoding="utf-8")
    run = read_run(folder)
    said = "\n".join(run.problems)
    assert [text for text in ("dump_1.npz", "config.yaml", "line 2:", "line 3:", "203 lines") if text not in said] == []
    assert [path.name for path, _ in run.dumps] == ["dump_0.npz"], "the other one is shown"


def test_a_metric_that_an_iteration_did_not_report_is_nan_there(tmp_path):
    folder = make_run(tmp_path / "run").folder
    (folder / "iterations.jsonl").unlink()
    assert read_run(folder).iterations == []
    append_iteration(folder, 1, 64, 1.5, {"collect_s": 1.0, "success_rate": math.nan})
    append_iteration(folder, 2, 128, 3.0, {"collect_s": 2.0, "success_rate": 0.25})
    run = read_run(folder)
    progress = [(entry.iteration, entry.env_steps, entry.wall_s) for entry in run.iterations]
    assert progress == [(1, 64, 1.5), (2, 128, 3.0)]
    assert run.metric_names == ["collect_s", "success_rate"]
    assert run.metric("collect_s") == [1.0, 2.0]
    first, second = run.metric("success_rate")
    assert math.isnan(first)
    assert second == 0.25
