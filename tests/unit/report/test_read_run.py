# SPDX-License-Identifier: BSD-3-Clause
"""A stranger's folder: what can be read is read, and the rest is named."""

import json
import math

import pytest

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.report.read_run import MAX_EVENTS, read_run
from isaaclab_pc.run.iteration_log import append_iteration
from tests.unit.report.run_folder import edit, make_faulty, make_run

ODD = {
    "status": "on fire",
    "wall_s": "long",
    "trials": [{"num_envs": -3}, "x"],
    "evaluation": {"episodes": 0},
    "guard": {"joint_velocity": "many"},
    "started": ["yesterday"],
    "restarts": [{"time": 1}],
    "checkpoints": {"latest": 3},
    "batch": "large",
    "task": None,
    "versions": 7,
    "num_envs": {"a": 1},
    "metrics": {"mean_reward": "a lot"},
}


def test_odd_fields_of_the_record_are_said_and_the_rest_is_shown(tmp_path):
    folder = make_run(tmp_path / "run").folder
    record = (folder / "run.json").read_text(encoding="utf-8")
    for field, value in ODD.items():
        (folder / "run.json").write_text(record, encoding="utf-8")
        edit(folder, **{field: value})
        run = read_run(folder)
        assert any(problem.startswith(f"run.json, {field}") for problem in run.problems), field
        assert run.iterations
        assert run.data.completed_iterations == 6

    edit(folder, **ODD)
    run = read_run(folder)
    assert len(run.problems) >= len(ODD)
    assert run.data.env_steps == 6144


@pytest.mark.parametrize("content", ["", "[1]", "{}", '{"a": 1}', "[" * 100_000, "\x00"])
def test_a_folder_without_the_record_of_a_run_is_refused(tmp_path, content):
    with pytest.raises(ConfigError, match=r"run\.json"):
        read_run(tmp_path)
    (tmp_path / "run.json").write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"run\.json"):
        read_run(tmp_path)


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
