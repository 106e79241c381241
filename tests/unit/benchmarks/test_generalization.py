# SPDX-License-Identifier: BSD-3-Clause
"""The table of what policies do elsewhere, around a stand-in for ``scripts/play.py``."""

import sys
from pathlib import Path

import pytest

from benchmarks import generalization
from benchmarks.generalization import Field, main, read_results
from isaaclab_pc.learners import read_header
from isaaclab_pc.run.evaluation import Success
from isaaclab_pc.run.pretrained import policy_file
from tests.unit.benchmarks.fake_training import write_run

PLAY = """
import json, sys
from pathlib import Path

with open("calls", "a") as calls:
    print(*sys.argv[1:], file=calls)
if "physics=newton_mjwarp" in sys.argv:
    sys.exit(3)
resume = next(text.removeprefix("resume=") for text in sys.argv if text.startswith("resume="))
own = Path("logs") / resume / "task" / "2026"
folder = Path(resume) / "play" / "2026" if Path(resume).is_dir() else own
folder.mkdir(parents=True)
result = {"success": {"rate": 0.5, "lower": 0.4, "upper": 0.6}, "episodes": 64}
(folder / "result.json").write_text(json.dumps(result))
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Measure in a folder; returns the exit code."""
    script = tmp_path / "play.py"
    script.write_text(PLAY, encoding="utf-8")
    monkeypatch.setattr(generalization, "PLAY", script)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["generalization.py", "--out", "results", *arguments])
        return main()

    return run


def calls(policy: str, task: str, condition: str) -> list[str]:
    """Return how ``scripts/play.py`` was called for a field."""
    path = Path("logs", "generalization", policy, task, condition, "calls")
    return path.read_text(encoding="utf-8").splitlines()


def test_a_field_is_one_evaluation_which_is_not_run_again(run):
    arguments = ("--task", "lift", "--condition", "half the points", "--episodes", "64", "--seed", "5")
    assert run(*arguments) == 0
    assert run(*arguments) == 0

    (call,) = calls("pretrained", "lift", "half_the_points")
    plain = "physics=ovphysx env.randomization=none points.realism=none"
    assert call.startswith(f"task=lift resume=pretrained {plain} ")
    assert call.endswith("num_envs=128 eval.episodes=64 eval.seed=5")
    num_points = read_header(policy_file("lift"))["observations"]["points"][-2]
    assert f" points.num_points={num_points // 2} " in call

    found = read_results(Path("results/generalization.csv"))
    assert found == {Field("pretrained", "lift", "half the points"): (Success(0.5, 0.4, 0.6), 64)}


def test_one_that_fails_is_measured_again_and_the_others_stay(run, capsys):
    assert run("--task", "lift", "--condition", "stereo", "Newton") == 1
    assert run("--task", "lift", "--condition", "stereo", "Newton") == 1

    assert len(calls("pretrained", "lift", "Newton")) == 2
    assert len(calls("pretrained", "lift", "stereo")) == 1
    text = capsys.readouterr().out
    assert "| stereo | 50.0 % [40.0, 60.0] of 64 |" in text
    assert "| Newton | - |" in text


def test_physics_is_that_of_the_training_unless_it_is_what_differs(run):
    run("--task", "lift", "--condition", "Newton")
    (call,) = calls("pretrained", "lift", "Newton")
    assert [text for text in call.split() if text.startswith("physics")] == ["physics=newton_mjwarp"]


def test_experts_have_no_rows_for_what_they_do_not_see(run, capsys):
    assert run("--policy", "expert", "--task", "lift", "--condition", "stereo", "randomization=hard") == 0
    (call,) = calls("expert", "lift", "randomization=hard")
    assert call.startswith("task=lift resume=expert physics=ovphysx env.randomization=hard num_envs=")
    text = capsys.readouterr().out
    assert "randomization=hard" in text
    assert "stereo" not in text


def test_the_report_measures_nothing(run, capsys):
    assert run("--report", "--task", "lift") == 0
    assert not Path("logs").exists()
    assert "| stereo | - |" in capsys.readouterr().out


def test_the_policy_of_a_run_is_measured_under_a_name_and_reported_without_the_run(run, capsys):
    folder = Path("logs/lift").resolve()
    write_run(folder, ["task=lift"], completed=True)
    assert run("--policy", "varied", "--run", str(folder), "--condition", "stereo") == 0
    (call,) = calls("varied", "lift", "stereo")
    assert f"task=lift resume={folder} " in call
    assert "points.realism=stereo" in call

    capsys.readouterr()
    assert run("--policy", "varied", "--report") == 0
    assert "| stereo | 50.0 % [40.0, 60.0] of 64 |" in capsys.readouterr().out


def test_a_run_needs_a_name_of_its_own_and_a_name_needs_a_run(run, capsys):
    folder = Path("logs/lift").resolve()
    write_run(folder, ["task=lift"], completed=True)
    with pytest.raises(SystemExit):
        run("--run", str(folder))
    assert "needs a name of its own: --policy=<name>" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run("--policy", "varied")
    assert "--policy=varied needs --run=" in capsys.readouterr().err


def test_a_folder_that_is_no_run_is_refused(run, tmp_path, capsys):
    with pytest.raises(SystemExit):
        run("--policy", "varied", "--run", str(tmp_path))
    assert f"--run: {tmp_path} is not a run's folder" in capsys.readouterr().err


def test_a_task_without_such_a_policy_is_refused(run, capsys):
    with pytest.raises(SystemExit):
        run("--task", "lift", "juggle")
    assert "no pretrained policy of juggle; there are " in capsys.readouterr().err
