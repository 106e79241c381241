# SPDX-License-Identifier: BSD-3-Clause
"""The programs of examples/ that start a simulator do what they say, each in a process of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.sim

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


REFUSED = [
    ("fit_your_env.py", ("--budget", "much"), "scaling.budget=much"),
    ("fit_your_env.py", ("--largest", "0"), "scaling.max=0"),
    ("guard_your_task.py", ("--assets", "nowhere"), "--assets nowhere"),
]


def run(*arguments: str | Path, cwd: Path, path: tuple[Path, ...] = ()) -> str:
    """Run a program to its end; return what it printed."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (*path, ROOT)))}
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_every_example_is_tested():
    unit = ROOT / "tests" / "unit"
    files = (Path(__file__), unit / "test_without_simulator.py", unit / "test_deploy_onnx.py")
    tests = "".join(file.read_text(encoding="utf-8") for file in files)
    for path in EXAMPLES.iterdir():
        assert path.name in tests or path.name.startswith(("__", "."))


@pytest.mark.parametrize(("script", "arguments", "words"), REFUSED)
def test_wrong_arguments_are_refused(script: str, arguments: tuple[str, ...], words: str, tmp_path: Path):
    command = [sys.executable, str(EXAMPLES / script), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert words in done.stderr.splitlines()[-1]


def test_the_sensor_in_a_scene_of_ones_own_sees_the_cube(tmp_path: Path):
    output = run(EXAMPLES / "cloud_in_your_scene.py", cwd=tmp_path)
    bounds = re.findall(r"environment \d: 128 points from \[(.*?)\] to \[(.*?)\] m", output)
    assert len(bounds) == 4
    for low, high in bounds:
        lower = [float(value) for value in low.split(",")]
        upper = [float(value) for value in high.split(",")]
        # The cube's edge is 0.1 m and its corner stands at (0.45, -0.05, 0); the crop begins 5 mm above the table.
        assert lower == pytest.approx([0.45, -0.05, 0.01], abs=0.01)
        assert upper == pytest.approx([0.55, 0.05, 0.1], abs=0.01)


def test_the_guard_ends_one_episode_of_a_foreign_task(tmp_path: Path):
    output = run(EXAMPLES / "guard_your_task.py", "--assets", ROOT / "tests" / "sim" / "assets", cwd=tmp_path)
    assert "step 5: episodes of environments [2] ended\n" in output
    assert "{'action': 1}" in output


def test_the_scaler_finds_a_size_for_a_foreign_environment(tmp_path: Path):
    output = run(EXAMPLES / "fit_your_env.py", "--largest", "16", cwd=tmp_path)
    assert re.search(r"num_envs=\d+: fits", output)
    assert re.search(r"num_envs=(8|16): the fewest environments within 5 % of the best", output)


@pytest.mark.slow
def test_a_task_of_another_package_trains(tmp_path: Path):
    # What `pip install -e examples/own_task` would leave in site-packages.
    metadata = tmp_path / "hover_task-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: hover-task\nVersion: 0.1.0\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text("[isaaclab.tasks]\nhover_task = hover_task\n", encoding="utf-8")

    settings = ("physics=newton_mjwarp", "device=cpu", "num_envs=4", "max_iterations=1", "eval.episodes=4")
    small = ("agent.samples_per_update=64", "env.episode_length_s=0.3")
    output = run(
        ROOT / "scripts" / "train.py",
        "task=Example-Hover-Cube-Franka-Direct",
        *settings,
        *small,
        cwd=tmp_path,
        path=(tmp_path, EXAMPLES / "own_task"),
    )
    assert "algorithm=distill teacher=expert (auto: the task has an expert to imitate)" in output
    assert "Example-Hover-Cube-Franka-Direct: 4 environments on cpu, newton_mjwarp" in output
    assert "over 4 episodes" in output
