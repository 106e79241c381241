# SPDX-License-Identifier: BSD-3-Clause
"""Imported robots do the tasks: a small one of boxes, and two arms of packages on PyPI, which are downloaded."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.commands.robot import main
from isaaclab_pc.workers.resolve import resolve
from isaaclab_pc.workers.session import open_env
from tests.sim.training import run_program, uv
from tests.small_arm import write_small_arm

pytestmark = pytest.mark.sim

NUM_ENVS = 4


def test_a_small_arm_of_boxes_goes_where_its_expert_sends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([f"file={write_small_arm(tmp_path)}", "name=small"]) == 0
    settings = compose(["task=reach", "robot=small", "obs=state", f"physics={backend}", "device=cpu"])
    with open_env(resolve(settings, NUM_ENVS)) as gym_env:
        env = gym_env.unwrapped
        gym_env.reset(seed=1)
        expert = env.expert()
        for _ in range(45):
            gym_env.step(expert())
        assert (torch.linalg.vector_norm(env.tool_pos - env.target_pos, dim=1) < env.cfg.success_distance).all()


PANDA = ("example-robot-data==6.0.0", {"file": "panda_description/urdf/panda.urdf"})
KINOVA = (
    "robosuite==1.5.2",
    {"file": "robots/kinova3/robot.xml", "gripper": "grippers/panda_gripper.xml", "flange": "right_hand"},
)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("package", "parts"), [PANDA, KINOVA], ids=["panda", "kinova"])
def test_a_robot_of_a_package_on_pypi_lifts(tmp_path: Path, backend: str, package: str, parts: dict[str, str]) -> None:
    install = [uv(), "pip", "install", "--python", sys.executable, "--no-deps", "--target", str(tmp_path / "data")]
    subprocess.run([*install, package], check=True)
    given = {key: next((tmp_path / "data").rglob(part), part) for key, part in parts.items()}
    run_program(tmp_path, "scripts/robot.py", *(f"{key}={value}" for key, value in given.items()), "name=imported")
    settings = ["task=lift", "resume=expert", "robot=imported", "obs=state", "eval.episodes=64", "device=cpu"]
    run_program(tmp_path, "scripts/play.py", *settings, f"physics={backend}")
    result = json.loads(next(tmp_path.rglob("result.json")).read_text(encoding="utf-8"))
    assert result["success"]["rate"] > 0.9
