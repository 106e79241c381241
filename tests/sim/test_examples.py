# SPDX-License-Identifier: BSD-3-Clause
"""The programs of examples/ that start a simulator do what they say."""

import importlib
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sim.training import ROOT, run_program

pytestmark = pytest.mark.sim

EXAMPLES = ROOT / "examples"
REFUSED = [
    ("fit_your_env.py", ("--budget", "much"), "scaling.budget=much"),
    ("fit_your_env.py", ("--largest", "0"), "scaling.max=0"),
    ("guard_your_task.py", ("--assets", "nowhere"), "--assets nowhere"),
]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a program in this process; return what it printed."""

    def run(script: str, *arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", [script, *arguments])
        importlib.import_module(Path(script).stem).main()
        return capsys.readouterr().out

    return run


def test_every_example_is_tested():
    unit = ROOT / "tests" / "unit"
    others = ("test_without_simulator.py", "test_deploy_onnx.py", "test_robot_loop.py", "test_robot_messages.py")
    here = (
        Path(__file__).with_name(name) for name in ("test_examples.py", "test_simulated_robot.py", "test_lerobot.py")
    )
    files = (*here, *(unit / name for name in others))
    tests = "".join(file.read_text(encoding="utf-8") for file in files)
    for path in EXAMPLES.iterdir():
        assert path.name in tests or path.name.startswith(("__", "."))


@pytest.mark.parametrize(("script", "arguments", "words"), REFUSED)
def test_wrong_arguments_are_refused(run, capsys, script: str, arguments: tuple[str, ...], words: str):
    with pytest.raises(SystemExit) as end:
        run(script, *arguments)
    assert end.value.code == 2
    assert words in capsys.readouterr().err.splitlines()[-1]


def test_the_sensor_in_a_scene_of_ones_own_sees_the_cube(run):
    bounds = re.findall(r"environment \d: 128 points from \[(.*?)\] to \[(.*?)\] m", run("cloud_in_your_scene.py"))
    assert len(bounds) == 4
    for low, high in bounds:
        lower = [float(value) for value in low.split(",")]
        upper = [float(value) for value in high.split(",")]
        # The cube's edge is 0.1 m and its corner stands at (0.45, -0.05, 0); the crop begins 5 mm above the table.
        assert lower == pytest.approx([0.45, -0.05, 0.01], abs=0.01)
        assert upper == pytest.approx([0.55, 0.05, 0.1], abs=0.01)


def test_the_guard_ends_one_episode_of_a_foreign_task(run):
    output = run("guard_your_task.py", "--assets", str(ROOT / "tests" / "sim" / "assets"))
    assert re.findall(r"(\d+):.*\[(.*)\]", output) == [("5", "2")]
    assert "{'action': 1}" in output


def test_the_scaler_finds_a_size_for_a_foreign_environment(run):
    output = run("fit_your_env.py", "--largest", "8")
    assert output.startswith("num_envs=8: fits")
    assert output.splitlines()[-1].startswith("num_envs=8: ")


@pytest.mark.slow
def test_a_task_of_another_package_trains(tmp_path: Path):
    # What `pip install -e examples/own_task` would leave in site-packages.
    metadata = tmp_path / "hover_task-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: hover-task\nVersion: 0.1.0\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text("[isaaclab.tasks]\nhover_task = hover_task\n", encoding="utf-8")

    settings = ("physics=newton_mjwarp", "device=cpu", "num_envs=4", "max_iterations=1", "eval.episodes=4")
    small = ("agent.samples_per_update=64", "env.episode_length_s=0.3")
    path = os.pathsep.join(map(str, (tmp_path, EXAMPLES / "own_task", ROOT)))
    task = "task=Example-Hover-Cube-Franka-Direct"
    output = run_program(tmp_path, "scripts/train.py", task, *settings, *small, PYTHONPATH=path)
    assert "algorithm=distill teacher=expert" in output
    assert "iteration 1/1" in output
