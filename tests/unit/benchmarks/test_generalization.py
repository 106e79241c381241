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

    def run(*arguments: str) -> int | str | None:
        monkeypatch.setattr(sys, "argv", ["generalization.py", "--out", "results", *arguments])
        try:
            return main()
        except SystemExit as ended:
            return ended.code

    return run


def calls(policy: str, task: str, condition: str) -> list[str]:
    """Return how ``scripts/play.py`` was called for a field."""
    path = Path("logs", "generalization", policy, task, condition, "calls")
    return path.read_text(encoding="utf-8").splitlines()


def cell(text: str, condition: str) -> str:
    """Return what a report says of a condition, for its only task."""
    (line,) = (line for line in text.splitlines() if line.startswith(f"| {condition} |"))
    return line.split(" | ")[1].removesuffix(" |")


def test_a_field_is_one_evaluation_which_is_not_run_again(run):
    arguments = ("--task", "lift", "--condition", "half the points", "--episodes", "64", "--seed", "5")
    assert run(*arguments) == 0
    assert run(*arguments) == 0

    (call,) = calls("pretrained", "lift", "half_the_points")
    num_points = read_header(policy_file("lift"))["observations"]["points"][-2]
    assert call.split() == [
        *("task=lift", "resume=pretrained", "physics=ovphysx", "env.randomization=none", "points.realism=none"),
        *(f"points.num_points={num_points // 2}", "num_envs=128", "eval.episodes=64", "eval.seed=5"),
    ]

    found = read_results(Path("results/generalization.csv"))
    assert found == {Field("pretrained", "lift", "half the points"): (Success(0.5, 0.4, 0.6), 64)}


def test_one_that_fails_is_measured_again_and_the_others_stay(run, capsys):
    for _ in range(2):
        assert run("--task", "lift", "--condition", "stereo", "Newton") == 1
    capsys.readouterr()

    first, second = calls("pretrained", "lift", "Newton")
    assert first == second
    # Physics is that of the training unless it is what differs.
    assert [text for text in first.split() if text.startswith("physics")] == ["physics=newton_mjwarp"]
    assert len(calls("pretrained", "lift", "stereo")) == 1

    assert run("--report", "--task", "lift") == 0
    text = capsys.readouterr().out
    assert (cell(text, "stereo")[:4], cell(text, "Newton")) == ("50.0", "-")
    assert len(calls("pretrained", "lift", "Newton")) == 2


def test_experts_have_no_rows_for_what_they_do_not_see(run, capsys):
    assert run("--policy", "expert", "--task", "lift", "--condition", "stereo", "randomization=hard") == 0
    (call,) = calls("expert", "lift", "randomization=hard")
    assert call.split()[:4] == ["task=lift", "resume=expert", "physics=ovphysx", "env.randomization=hard"]
    text = capsys.readouterr().out
    assert "randomization=hard" in text
    assert "stereo" not in text


def test_the_policy_of_a_run_is_measured_under_a_name_and_reported_without_the_run(run, capsys):
    folder = Path("logs/lift").resolve()
    write_run(folder, ["task=lift"], completed=True)
    assert run("--policy", "varied", "--run", str(folder), "--condition", "stereo") == 0
    (call,) = calls("varied", "lift", "stereo")
    assert {"task=lift", f"resume={folder}", "points.realism=stereo"} <= set(call.split())

    capsys.readouterr()
    assert run("--policy", "varied", "--report") == 0
    assert cell(capsys.readouterr().out, "stereo").startswith("50.0")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--run", "logs/lift"], ["--run=logs/lift", "--policy=<name>"]),
        (["--policy", "varied"], ["--policy=varied", "--run="]),
        (["--policy", "varied", "--run", "logs"], ["--run", "logs"]),
        (["--task", "lift", "juggle"], ["pretrained", "juggle", "lift"]),
    ],
    ids=["a run without a name", "a name without a run", "no run", "a task without a policy"],
)
def test_what_does_not_fit_is_refused(run, capsys, arguments, named):
    write_run(Path("logs/lift"), ["task=lift"], completed=True)
    assert run(*arguments) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert all(part in error for part in named)
