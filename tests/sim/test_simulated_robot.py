# SPDX-License-Identifier: BSD-3-Clause
"""examples/simulated_robot.py: an exported policy closes the loop through a robot's messages alone."""

import json
import re
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from tests.sim.training import run_program

pytestmark = [pytest.mark.sim, pytest.mark.physx, pytest.mark.slow]

TOLERANCE = 5e-3
"""Of actions, from -1 to 1: the points go through the camera's frame, and float16 then rounds some the other way."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export of lift's own policy."""
    folder = tmp_path_factory.mktemp("robot")
    run_program(folder, "scripts/export.py", "run=pretrained", "task=lift")
    return folder / "logs" / "pretrained" / "lift" / "export"


def test_the_policy_lifts_by_points_and_acts_as_in_the_simulator(folder: Path) -> None:
    arguments = ("--num-envs", "4", "--compare", "--log", "log.hdf5")
    output = run_program(folder, "examples/simulated_robot.py", str(folder), *arguments)
    assert "success 100.0% of 4 episodes" in output
    ((difference, steps),) = re.findall(r"as the runner's to (\S+) over (\d+) steps", output)
    assert float(difference) <= TOLERANCE

    with h5py.File(folder / "log.hdf5") as file:
        log: Any = file["data/demo_0"]
        assert 4 * len(log["actions"]) == int(steps) > 0
        assert log["obs/points"].shape[1:] == (3, 128, 3)
        np.testing.assert_allclose(np.diff(log["times/now"]), 1.0 / 30.0)
        np.testing.assert_allclose(log["commands/tool_translation"], 0.03 * log["actions"][:, :3], atol=1e-6)

    # What a robot did can be learned from.
    settings = ("task=lift", "sim2real=true", "num_envs=4", "max_iterations=1", "eval.episodes=4", "physics=ovphysx")
    run_program(folder, "scripts/train.py", *settings, "demos=log.hdf5")
    (run,) = folder.glob("logs/rsl_rl/lift/*/iterations.jsonl")
    assert json.loads(run.read_text(encoding="utf-8"))["metrics"]["Learner/updates"] > 0


def test_the_policy_lifts_by_depth_images(folder: Path) -> None:
    output = run_program(folder, "examples/simulated_robot.py", str(folder), "--images", "--num-envs", "1")
    assert "success 100.0% of 1 episodes" in output


def test_a_cloud_is_as_old_as_the_cameras_latency_makes_it(tmp_path: Path) -> None:
    """The tool has moved on since, and with it the frame of the points."""
    settings = ["physics=ovphysx", "device=cpu", "num_envs=16", "max_iterations=1", "agent.samples_per_update=128"]
    settings += ["points.realism=stereo", "env.scene.points.realism.latency=1", "env.history_length=2"]
    run_program(tmp_path, "scripts/train.py", "task=lift", *settings, "env.episode_length_s=1", "eval.episodes=16")
    run_program(tmp_path, "scripts/export.py", "task=lift", "run=latest")
    (folder,) = tmp_path.glob("logs/*/lift/*/export")
    output = run_program(tmp_path, "examples/simulated_robot.py", str(folder), "--run", str(folder.parent), "--compare")
    ((difference, steps),) = re.findall(r"as the runner's to (\S+) over (\d+) steps", output)
    assert int(steps) > 0
    assert float(difference) <= TOLERANCE
