# SPDX-License-Identifier: BSD-3-Clause
import json
import os

import pytest

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.launch.compose import compose
from isaaclab_pc.launch.evaluation_result import Evaluation, Success
from isaaclab_pc.launch.run_record import RunData, RunRecord, find_checkpoint

HALF = Success(rate=0.5, lower=0.2, upper=0.8)
EVALUATION = Evaluation(
    episodes=8, seed=1, success=HALF, success_once=HALF, mean_return=1.5, mean_time_to_success_s=None
)


@pytest.fixture
def make_run(tmp_path):
    """Make a run with checkpoints, as the worker leaves it."""

    def make(name, started, latest=None, best=None, experiment="reach", runner="rsl_rl"):
        folder = tmp_path / runner / experiment / name
        (folder / "checkpoints").mkdir(parents=True)
        record = RunRecord.create(folder, compose([f"runner={runner}"]), experiment)
        checkpoints = {}
        for which, file in (("latest", latest), ("best", best)):
            checkpoints[which] = {"path": f"checkpoints/{file}", "iteration": 1, "success_rate": None} if file else None
            if file:
                (folder / "checkpoints" / file).touch()
        record.update(started=started, checkpoints=checkpoints)
        return folder

    return make


def test_a_record_holds_what_a_report_needs(tmp_path):
    RunRecord.create(tmp_path, compose(["num_envs=8", "max_iterations=3"]), "reach")
    data = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))
    assert data["status"] == "running"
    assert (data["task"], data["runner"], data["experiment"]) == ("IsaacPC-Reach-Franka-Direct", "rsl_rl", "reach")
    assert (data["num_envs"], data["max_iterations"], data["completed_iterations"]) == (8, 3, 0)
    assert data["versions"]["isaaclab"].startswith("3.0")
    assert data["versions"]["python"]
    assert "config" not in data, "the settings have a file of their own"


def test_a_record_survives_writing_and_reading(tmp_path):
    record = RunRecord.create(tmp_path, compose(), "reach")
    record.update(
        metrics={"loss": 0.5}, guard={"state": 3}, harder_physics={"dt": 0.01, "decimation": 2}, evaluation=EVALUATION
    )
    assert RunRecord.load(tmp_path).data == record.data


def test_an_update_replaces_the_file_and_leaves_no_other(tmp_path):
    record = RunRecord.create(tmp_path, compose(), "reach")
    record.update(completed_iterations=3, success=0.5)
    assert RunRecord.load(tmp_path).data.completed_iterations == 3
    assert os.listdir(tmp_path) == ["run.json"]


def test_a_failed_write_keeps_the_old_record(tmp_path):
    record = RunRecord.create(tmp_path, compose(), "reach")
    with pytest.raises(TypeError):
        record.update(contacts={"broken": object()})
    assert RunRecord.load(tmp_path).data.status == "running"
    assert RunRecord.load(tmp_path).data.contacts is None
    assert os.listdir(tmp_path) == ["run.json"]


@pytest.mark.parametrize(
    "fields", [{"no_such_field": 1}, {"status": "finished"}, {"completed_iterations": "many"}, {"success": "all"}]
)
def test_fields_that_a_record_does_not_have_and_wrong_values_are_errors(tmp_path, fields):
    record = RunRecord.create(tmp_path, compose(), "reach")
    before = (tmp_path / "run.json").read_bytes()
    with pytest.raises(ValueError, match=next(iter(fields))):
        record.update(**fields)
    assert (tmp_path / "run.json").read_bytes() == before


def test_numbers_that_json_lacks_become_null(tmp_path):
    values = {"nan": float("nan"), "inf": float("-inf"), "number": 1.5}
    RunRecord.create(tmp_path, compose(), "reach").update(
        metrics=values, contacts={"list": [float("nan"), {"inf": float("inf")}, 1.5]}, success=float("nan")
    )
    data = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert data["metrics"] == {"nan": None, "inf": None, "number": 1.5}
    assert data["contacts"] == {"list": [None, {"inf": None}, 1.5]}
    assert data["success"] is None
    assert RunRecord.load(tmp_path).data.metrics["nan"] is None


def test_finishing_tells_how_it_ended(tmp_path):
    RunRecord.create(tmp_path, compose(), "reach").finish("failed", "it broke")
    data = RunRecord.load(tmp_path).data
    assert (data.status, data.error) == ("failed", "it broke")
    assert data.ended is not None
    assert data.ended >= data.started


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
        ("completed_iterations", "x"),
        ("checkpoints", {"latest": {"path": 3, "iteration": 1, "success_rate": None}, "best": None}),
        ("no_such_field", 1),
        ("started", None),
    ],
)
def test_a_record_with_a_wrong_field_is_refused_by_its_name(tmp_path, field, value):
    RunRecord.create(tmp_path, compose(), "reach")
    path = tmp_path / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | {field: value}), encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"is not the record of a run: {field}"):
        RunRecord.load(tmp_path)


def test_every_field_of_a_record_says_what_it_is():
    assert [name for name, field in RunData.model_fields.items() if not field.description] == []


def test_latest_is_the_newest_run_that_has_a_checkpoint(tmp_path, make_run):
    make_run("a", "2026-01-01T00:00:00", latest="model_1.pt")
    middle = make_run("b", "2026-01-02T00:00:00", latest="model_2.pt", best="model_1.pt")
    make_run("c", "2026-01-03T00:00:00")
    make_run("d", "2026-01-04T00:00:00", latest="model_9.pt", experiment="lift")
    make_run("e", "2026-01-05T00:00:00", latest="model_9.pt", runner="rl_games")
    record, checkpoint = find_checkpoint("latest", tmp_path, "rsl_rl", "reach")
    assert record.folder == middle
    assert checkpoint == middle / "checkpoints" / "model_2.pt"
    assert find_checkpoint("best", tmp_path, "rsl_rl", "reach")[1].name == "model_1.pt"


def test_a_run_is_found_by_its_folder_or_by_a_checkpoint(tmp_path, make_run):
    folder = make_run("a", "2026-01-01T00:00:00", latest="model_2.pt", best="model_1.pt")
    for path, name in ((folder, "model_2.pt"), (folder / "checkpoints" / "model_1.pt", "model_1.pt")):
        record, checkpoint = find_checkpoint(str(path), tmp_path, "rsl_rl", "reach")
        assert record.folder == folder
        assert checkpoint.name == name


def test_a_broken_record_does_not_hide_other_runs(tmp_path, make_run):
    folder = make_run("a", "2026-01-01T00:00:00", latest="model_2.pt")
    broken = tmp_path / "rsl_rl" / "reach" / "b"
    broken.mkdir()
    (broken / "run.json").write_text("{", encoding="utf-8")
    assert find_checkpoint("latest", tmp_path, "rsl_rl", "reach")[0].folder == folder


def test_what_cannot_be_resumed_is_refused(tmp_path, make_run):
    with pytest.raises(ConfigError, match="no run with a checkpoint"):
        find_checkpoint("latest", tmp_path, "rsl_rl", "reach")
    with pytest.raises(ConfigError, match="expected latest, best, or the path"):
        find_checkpoint("lastest", tmp_path, "rsl_rl", "reach")
    empty = make_run("a", "2026-01-01T00:00:00")
    with pytest.raises(ConfigError, match="has no checkpoint"):
        find_checkpoint(str(empty), tmp_path, "rsl_rl", "reach")
    stranger = tmp_path / "stranger.pt"
    stranger.touch()
    with pytest.raises(ConfigError, match="not a run's folder"):
        find_checkpoint(str(stranger), tmp_path, "rsl_rl", "reach")
