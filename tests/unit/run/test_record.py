# SPDX-License-Identifier: BSD-3-Clause
import json
import os
import zipfile

import pytest

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.run.evaluation import Evaluation, Success
from isaaclab_pc.run.iteration_log import append_iteration
from isaaclab_pc.run.record import CheckpointEntries, CheckpointEntry, CurvePoint, RunData, RunRecord

HALF = Success(rate=0.5, lower=0.2, upper=0.8)
EVALUATION = Evaluation(
    episodes=8, seed=1, success=HALF, success_once=HALF, mean_return=1.5, mean_time_to_success_s=None
)


def test_a_record_holds_what_a_report_needs(tmp_path):
    RunRecord.create(tmp_path, compose(["num_envs=8", "max_iterations=3"]))
    data = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))
    assert data["status"] == "running"
    assert (data["task"], data["runner"], data["experiment"]) == ("IsaacPC-Reach-Franka-Direct", "rsl_rl", "reach")
    assert (data["num_envs"], data["max_iterations"], data["completed_iterations"]) == (8, 3, 0)
    assert data["versions"]["isaaclab"].startswith("3.0")
    assert data["versions"]["python"]


def test_a_record_survives_writing_and_reading(tmp_path):
    record = RunRecord.create(tmp_path, compose())
    record.update(
        metrics={"loss": 0.5}, guard={"state": 3}, harder_physics={"dt": 0.01, "decimation": 2}, evaluation=EVALUATION
    )
    assert RunRecord.load(tmp_path).data == record.data


def write_checkpoint(record: RunRecord, iteration: int) -> CheckpointEntry:
    path = record.folder / "checkpoints" / f"model_{iteration}.pt"
    path.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/header.json", json.dumps({"format": 1, "iteration": iteration}))
    return CheckpointEntry(path=f"checkpoints/{path.name}", iteration=iteration, success_rate=0.1)


def test_a_run_that_goes_on_from_an_older_checkpoint_forgets_what_came_after_it(tmp_path):
    record = RunRecord.create(tmp_path, compose())
    write_checkpoint(record, 3)
    best, latest = write_checkpoint(record, 6), write_checkpoint(record, 9)
    points = [
        CurvePoint(iteration=n, env_steps=n, wall_s=n, evaluation_s=1.0, evaluation=EVALUATION) for n in (3, 6, 9)
    ]
    record.update(
        status="completed",
        completed_iterations=10,
        checkpoints=CheckpointEntries(latest=latest, best=best),
        evaluations=points,
        evaluation=EVALUATION,
        success=0.5,
    )
    assert record.go_on(tmp_path / "checkpoints" / "model_3.pt", resumed=["model_3.pt"]) == 3
    data = RunRecord.load(tmp_path).data
    assert (data.status, data.completed_iterations, data.resumed) == ("running", 3, ["model_3.pt"])
    assert (data.evaluations, data.evaluation, data.success) == (points[:1], None, None)
    assert data.checkpoints.latest is not None
    assert (data.checkpoints.latest.iteration, data.checkpoints.best) == (3, best)

    assert record.go_on(tmp_path / best.path) == 6
    assert record.data.checkpoints.latest == best
    assert record.go_on(None) == 0
    assert record.data.checkpoints == CheckpointEntries()


def test_a_failed_write_keeps_the_old_record(tmp_path):
    record = RunRecord.create(tmp_path, compose())
    with pytest.raises(ValueError, match="object"):
        record.update(contacts={"broken": object()})
    assert RunRecord.load(tmp_path).data.status == "running"
    assert RunRecord.load(tmp_path).data.contacts is None
    assert os.listdir(tmp_path) == ["run.json"]


@pytest.mark.parametrize(
    "fields", [{"no_such_field": 1}, {"status": "finished"}, {"completed_iterations": "many"}, {"success": "all"}]
)
def test_fields_that_a_record_does_not_have_and_wrong_values_are_errors(tmp_path, fields):
    record = RunRecord.create(tmp_path, compose())
    before = (tmp_path / "run.json").read_bytes()
    with pytest.raises(ValueError, match=next(iter(fields))):
        record.update(**fields)
    assert (tmp_path / "run.json").read_bytes() == before


def test_numbers_that_json_lacks_become_null(tmp_path):
    values = {"nan": float("nan"), "inf": float("-inf"), "number": 1.5}
    RunRecord.create(tmp_path, compose()).update(
        metrics=values, contacts={"list": [float("nan"), {"inf": float("inf")}, 1.5]}, success=float("nan")
    )
    data = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert data["metrics"] == {"nan": None, "inf": None, "number": 1.5}
    assert data["contacts"] == {"list": [None, {"inf": None}, 1.5]}
    assert data["success"] is None
    assert RunRecord.load(tmp_path).data.metrics["nan"] is None


@pytest.mark.parametrize("content", ["{", "[]", "{}", "3", '{"task": "reach"}', "[" * 100_000])
def test_what_is_no_record_is_refused(tmp_path, content):
    (tmp_path / "run.json").write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"run\.json") as refusal:
        RunRecord.load(tmp_path)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("status", "finished"),
        ("num_envs", "many"),
        ("checkpoints", {"latest": {"path": 3, "iteration": 1, "success_rate": None}, "best": None}),
        ("no_such_field", 1),
    ],
)
def test_a_record_with_a_wrong_field_is_refused_by_its_name(tmp_path, field, value):
    RunRecord.create(tmp_path, compose())
    path = tmp_path / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | {field: value}), encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"run\.json .*: {field}"):
        RunRecord.load(tmp_path)


def test_every_field_of_a_record_says_what_it_is():
    assert [name for name, field in RunData.model_fields.items() if not field.description] == []


def test_a_record_that_is_read_has_the_iterations_since_it_was_written(tmp_path):
    record = RunRecord.create(tmp_path, compose())
    append_iteration(tmp_path, 1, 256, 2.0, {"mean_reward": 1.0})
    append_iteration(tmp_path, 2, 512, 3.5, {"mean_reward": float("nan"), "loss/value": 0.5})
    with (tmp_path / "iterations.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"iteration": 3, "env\n')
    data = RunRecord.load(tmp_path).data
    assert (data.completed_iterations, data.env_steps, data.wall_s) == (2, 512, 3.5)
    assert data.metrics == {"loss/value": 0.5}

    # As after a death: what came after the checkpoint is no part of the run, and its time is.
    record.update(wall_s=3.5, completed_iterations=1, env_steps=256)
    assert RunRecord.load(tmp_path).data.completed_iterations == 1
    append_iteration(tmp_path, 2, 512, 4.5, {})
    assert RunRecord.load(tmp_path).data.completed_iterations == 2
