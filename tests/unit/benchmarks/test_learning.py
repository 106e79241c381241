# SPDX-License-Identifier: BSD-3-Clause
"""The grid of trainings, around a stand-in for ``scripts/train.py``."""

import csv
from pathlib import Path

import pytest
import torch

from benchmarks import learning
from benchmarks.learning import Cell
from isaaclab_pc.learners.common.checkpoint_file import save_checkpoint


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """The folder and the arguments of each training that was started."""
    monkeypatch.setattr(learning, "TRAIN", Path(__file__).with_name("fake_training.py"))
    path = tmp_path / "calls"
    return lambda: [line.split() for line in path.read_text(encoding="utf-8").splitlines()]


CELL = Cell("lift", "points", "expert", 3)


@pytest.mark.parametrize("option", ["--task lift push", "--obs state", "--learner ppo", "--seed 1 2"])
def test_settings_may_follow_an_option_that_takes_several_values(option):
    settings = ["physics=ovphysx", "max_iterations=450"]
    args = learning.parse_arguments([*option.split(), *settings, "--report"])
    name, *values = option.removeprefix("--").split()
    assert args.settings == settings
    assert [str(value) for value in getattr(args, name)] == values


def test_a_cell_is_one_training_in_a_folder_of_its_own(calls, tmp_path):
    assert learning.run(CELL, tmp_path, ["physics=ovphysx"]) == 0
    assert learning.run(CELL, tmp_path, []) == 0
    ((folder, *settings),) = calls()
    assert folder == "lift/points/expert/3"
    assert {"task=lift", "obs=points", "seed=3", "algorithm=distill", "physics=ovphysx"} <= set(settings)


def test_a_cell_that_was_interrupted_goes_on(calls, tmp_path):
    (tmp_path / "interrupt").touch()
    assert learning.run(CELL, tmp_path, []) == 75
    (tmp_path / "interrupt").unlink()
    assert learning.run(CELL, tmp_path, []) == 0
    assert calls()[1] == ["lift/points/expert/3", "resume=logs/rsl_rl/task/2026"]


def test_a_policy_that_teaches_is_trained_first(calls, tmp_path):
    assert learning.run(Cell("push", "points", "teacher", 1), tmp_path, []) == 0
    (first, *_), (second, *settings) = calls()
    assert (first, second) == ("push/state/ppo/1", "push/points/teacher/1")
    assert f"teacher={tmp_path / 'push/state/ppo/1/logs/rsl_rl/task/2026'}" in settings


def test_all_seeds_are_run_of_clouds_from_the_expert_and_one_of_the_rest():
    cells = learning.grid(["reach", "lift"], ["state", "points"], ["ppo", "expert", "teacher"], [1, 2])
    assert cells[:4] == [Cell(task, "points", "expert", seed) for seed in (1, 2) for task in ("reach", "lift")]
    assert len(cells) == len(set(cells)) == 4 + 2 * 4
    assert not any(cell.obs == "state" and cell.learner == "teacher" for cell in cells)


def trained(root: Path, out: Path, cell: Cell = CELL) -> None:
    """Run a cell with a checkpoint of a policy of seven numbers, and keep what came of it."""
    learning.run(cell, root, [])
    checkpoint = cell.folder(root) / "logs/rsl_rl/task/2026/checkpoints/model_9.pt"
    save_checkpoint(checkpoint, {"algorithm": {"student_state_dict": {"weight": torch.zeros(7)}}}, {})
    record = learning.newest(cell.folder(root))
    assert record is not None
    learning.keep(cell, record, out)


@pytest.mark.usefixtures("calls")
def test_the_report_leaves_evaluations_out_of_the_time(tmp_path, capsys):
    out = tmp_path / "results"
    trained(tmp_path, out)
    learning.report([CELL, Cell("lift", "points", "expert", 4)], out)
    with (out / "learning.csv").open(encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert (row["training_s"], row["training_s_to_good"], row["steps_to_good"]) == ("80", "70", "2000")
    assert (row["success"], row["parameters"], row["peak_mib"], row["env_steps_per_s"]) == ("0.97", "7", "2048", "100")
    assert (out / "learning.png").is_file()
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("| `lift`"))
    assert [cell.split(" ")[0] for cell in line.strip("| ").split(" | ")] == [
        *("`lift`", "points", "expert", "97.0", "97.0", "2.00", "8,000", "80", "100", "70", "2.0", "7")
    ]


@pytest.mark.usefixtures("calls")
def test_an_evaluation_after_the_last_iteration_is_not_in_the_runs_time(tmp_path):
    learning.run(CELL, tmp_path, [])
    record = learning.newest(CELL.folder(tmp_path))
    assert record is not None
    last = record.data.evaluations[-1].model_copy(update={"iteration": 3, "wall_s": record.data.wall_s})
    record.update(evaluations=[*record.data.evaluations, last])
    assert learning.training_seconds(record.data) == learning.training_seconds(record.data, last) == 80.0


@pytest.mark.usefixtures("calls")
def test_success_that_came_with_the_end_came_after_the_whole_training(tmp_path, monkeypatch):
    learning.run(CELL, tmp_path, [])
    record = learning.newest(CELL.folder(tmp_path))
    assert record is not None
    record.update(evaluations=record.data.evaluations[:1])
    # The stand-in's checkpoint is empty.
    monkeypatch.setattr(learning, "num_parameters", lambda record: 7)
    row = learning.row(CELL, record)
    assert (row["training_s"], row["training_s_to_good"], row["steps_to_good"]) == ("90", "90", "8000")


@pytest.mark.usefixtures("calls")
@pytest.mark.parametrize(("never", "median"), [(1, "70 s"), (2, "-")])
def test_a_seed_that_never_came_to_it_counts_as_the_slowest(tmp_path, never, median):
    trained(tmp_path, tmp_path)
    (row,) = learning.read_rows(tmp_path / learning.TABLE)
    failed = row | {"training_s_to_good": ""}
    table = learning.table([failed] * never + [row] * (3 - never))
    assert table.splitlines()[-1].split(" | ")[9] == median


def test_what_the_csv_knows_is_not_run_again_though_its_runs_are_gone(calls, tmp_path, monkeypatch):
    out = tmp_path / "results"
    trained(tmp_path / "gone", out)
    arguments = ["--task", "lift", "--seed", "2", "3", "--folder", str(tmp_path), "--out", str(out)]
    monkeypatch.setattr("sys.argv", ["learning.py", *arguments])
    # The stand-in's checkpoint is empty.
    monkeypatch.setattr(learning, "num_parameters", lambda record: 7)
    assert learning.main() == 0
    assert [call[0] for call in calls()] == ["lift/points/expert/2"]
    cells = [learning.cell_of(line) for line in learning.read_rows(out / learning.TABLE)]
    assert cells == [Cell("lift", "points", "expert", 2), CELL]


@pytest.mark.usefixtures("calls")
def test_a_cell_that_is_run_anew_takes_the_place_of_the_old_one(tmp_path):
    for _ in range(2):
        trained(tmp_path, tmp_path)
        trained(tmp_path, tmp_path, Cell("reach", "state", "ppo", 1))
    assert len(learning.read_rows(tmp_path / learning.TABLE)) == 2
    points = learning.read_rows(tmp_path / learning.CURVES)
    assert [learning.cell_of(point).task for point in points] == ["lift"] * 3 + ["reach"] * 3
    assert [point["training_s"] for point in points[:3]] == sorted(point["training_s"] for point in points[:3])
