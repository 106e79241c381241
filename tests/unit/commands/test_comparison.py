# SPDX-License-Identifier: BSD-3-Clause
"""``scripts/report.py`` on runs of two libraries, written as the worker writes them."""

import csv
from pathlib import Path

import pytest

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.commands import report
from isaaclab_pc.report.read_run import read_runs
from isaaclab_pc.report.run_tables import differences
from isaaclab_pc.report.words import NOTHING
from isaaclab_pc.run.evaluation import Evaluation, Success
from isaaclab_pc.run.iteration_log import append_iteration
from isaaclab_pc.run.record import CurvePoint, RunRecord

SETTINGS = ["num_envs=8", "device=cpu", "max_iterations=4"]
ITERATIONS = 4
STEPS = 800


def evaluation(rate: float) -> Evaluation:
    success = Success(rate, max(rate - 0.1, 0.0), min(rate + 0.1, 1.0))
    return Evaluation(100, 1000, success, success, 3.0, None)


def write_run(folder: Path, *settings: str, success: float, rollout_s: float, env: tuple[str, ...] = ()) -> None:
    """Write a run that was at half of its success in an evaluation after two of four iterations."""
    folder.mkdir(parents=True)
    composed = compose([*SETTINGS, *settings], env)
    composed.save(folder / "config.yaml")
    record = RunRecord.create(folder, composed)
    for n in range(1, ITERATIONS + 1):
        # The first iteration also compiles kernels.
        collect_s = rollout_s if n > 1 else 60.0
        speeds = {"env": STEPS / (collect_s - 0.5), "inference": STEPS / collect_s, "total": STEPS / (collect_s + 4.0)}
        metrics = {f"Perf/{part}_fps": speed for part, speed in speeds.items()}
        metrics |= {"collect_s": collect_s, "learn_s": 4.0, "success_rate": success * n / ITERATIONS}
        append_iteration(folder, n, n * STEPS, 10.0 * n, {**metrics, "mean_reward": float(n)})
    half = CurvePoint(
        iteration=2, env_steps=2 * STEPS, wall_s=20.0, evaluation_s=1.0, evaluation=evaluation(success / 2)
    )
    record.update(
        completed_iterations=ITERATIONS,
        env_steps=ITERATIONS * STEPS,
        wall_s=41.0,
        evaluations=[half],
        evaluation=evaluation(success),
        peak_bytes=3 * 2**30,
        guard={"action": 2, "depth": 3},
    )
    record.finish("completed")


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders of two runs, the first of which learned it."""
    monkeypatch.chdir(tmp_path)
    write_run(Path("logs/rsl_rl/reach/a"), success=0.96, rollout_s=2.0)
    write_run(Path("logs/rl_games/reach/b"), "runner=rl_games", "seed=7", success=0.5, rollout_s=1.0)
    return ["logs/rsl_rl/reach/a", "logs/rl_games/reach/b"]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def differing(folders: list[str]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(values) for name, *values in differences(read_runs([Path(folder) for folder in folders]))}


def test_runs_of_two_libraries_stand_side_by_side(runs: list[str], capsys) -> None:
    assert report.main(runs) == 0
    (out,) = Path("logs/report").iterdir()
    output = capsys.readouterr().out
    assert "[86.0, 100.0]" in output
    assert str(out) in output.splitlines()[-1]

    first, second = rows(out / "runs.csv")
    assert (first["run"], first["runner"], first["success"]) == ("a", "rsl_rl", "0.96")
    assert (first["env_steps_to_0.9"], first["wall_s_to_0.9"]) == (str(ITERATIONS * STEPS), "41.0")
    assert (second["env_steps_to_0.9"], second["wall_s_to_0.9"]) == ("", "")
    speeds = [float(first[f"{part}_fps"]) for part in ("env", "inference", "total")]
    assert speeds == pytest.approx([STEPS / 1.5, STEPS / 2, STEPS / 6])
    assert all(f"{round(speed)}" in output for speed in speeds)
    assert (first["guard_action"], first["guard_depth"], first["peak_bytes"]) == ("2", "3", str(3 * 2**30))
    assert differing(runs) == {"runner": ("rsl_rl", "rl_games"), "seed": ("42", "7")}
    assert all(name in (out / "report.html").read_text(encoding="utf-8") for name in ("rsl_rl", "rl_games"))


def test_the_threshold_may_be_reached_before_the_end(runs: list[str]) -> None:
    assert report.main([*runs, "out=result", "threshold=0.4"]) == 0
    first, second = rows(Path("result/runs.csv"))
    assert (first["env_steps_to_0.4"], first["wall_s_to_0.4"]) == (str(2 * STEPS), "20.0")
    assert second["env_steps_to_0.4"] == str(ITERATIONS * STEPS)


def test_what_a_task_of_another_package_sees_is_not_said_to_be_a_cloud(runs: list[str]) -> None:
    write_run(Path("logs/rsl_rl/reach_state/c"), "obs=state", "robot=ur5e", success=0.5, rollout_s=1.0)
    folders = [*runs, "logs/rsl_rl/reach_state/c"]
    for folder, config in zip(folders, ["sim: {}", "obs: points", "obs: state"], strict=True):
        (Path(folder) / "params").mkdir()
        (Path(folder) / "params/env.yaml").write_text(f"scene:\n  obs: depth\n{config}\n", encoding="utf-8")
    assert report.main([*folders, "out=result"]) == 0
    told = differing(folders)
    assert told["obs"] == (NOTHING, "points", "state")
    assert told["robot"] == (NOTHING, "franka", "ur5e")
    assert "runner" in told


@pytest.mark.usefixtures("runs")
def test_names_and_values_are_shown_as_they_are(capsys) -> None:
    folders = ["[old]", "_$x_{1$"]
    for index, folder in enumerate(folders):
        write_run(Path(folder), success=0.5, rollout_s=1.0, env=(f"env.cameras=[wrist,front{index}]",))
    assert report.main([*folders, "out=result"]) == 0
    output = capsys.readouterr().out
    assert {name for name in (*folders, "[wrist,front0]", "[wrist,front1]") if name not in output} == set()
    assert all(name in Path("result/report.html").read_text(encoding="utf-8") for name in folders)


def test_a_pattern_may_mean_new_runs_and_folders_of_other_scripts(runs: list[str], capsys) -> None:
    begun = Path("logs/rsl_rl/reach/c")
    begun.mkdir()
    settings = compose(SETTINGS)
    settings.save(begun / "config.yaml")
    RunRecord.create(begun, settings)
    other = Path("logs/scale/reach/a")
    other.mkdir(parents=True)
    assert report.main([*runs, f"./{runs[0]}", str(begun), str(other), "out=result"]) == 0
    assert str(other) in capsys.readouterr().err
    assert [row["success"] for row in rows(Path("result/runs.csv"))] == ["0.96", "0.5", ""]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["logs/rsl_rl/reach/aa"], "logs/rsl_rl/reach/aa run.json. logs/<runner>/<task>/<time>, latest."),
        (["logs/rsl_rl"], "run.json. logs/<runner>/<task>/<time>, latest."),
        (["logs/rsl_rl/reach/a", "treshold=0.5"], "treshold threshold?"),
        (["logs/rsl_rl/reach/a", "threshold=90"], "threshold=90"),
        (["--out", "logs/rsl_rl/reach/a"], "--out"),
    ],
)
@pytest.mark.usefixtures("runs")
def test_what_cannot_be_compared_is_refused_with_the_next_step(refused, arguments: list[str], words: str) -> None:
    refused(report, arguments, words)
    assert not Path("logs/report").exists()
