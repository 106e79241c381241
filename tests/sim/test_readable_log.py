# SPDX-License-Identifier: BSD-3-Clause
"""Floods of simulators: the log of PhysX has the first lines and a count, Newton prints none."""

import re
import sys
from pathlib import Path

import pytest

from isaaclab_pc.processes.child_process import run_child
from isaaclab_pc.processes.output_filter import FLOOD

pytestmark = pytest.mark.sim

CHILD = """
import os, sys
from pathlib import Path
from isaaclab_pc.processes.output_filter import divert_output

divert_output(Path(sys.argv[1]))
import gymnasium as gym
import torch
from isaaclab.app import launch_simulation
from isaaclab_tasks.utils import load_cfg_from_registry
import isaaclab_pc.tasks
from isaaclab_pc.physics import apply_physics
from isaaclab_pc.settings import PhysicsSettings

backend = sys.argv[2]
cfg = load_cfg_from_registry("IsaacPC-Lift-Cube-Franka-Direct", "env_cfg_entry_point")
cfg.sim.device, cfg.scene.num_envs, cfg.seed, cfg.obs, cfg.guard.mode = "cpu", 2, 1, "state", "disabled"
apply_physics(cfg, PhysicsSettings(backend=backend))
if backend == "newton_mjwarp":
    cfg.sim.physics.solver_cfg.njmax = 18
with launch_simulation(cfg, {"device": "cpu", "headless": True}):
    env = gym.make("IsaacPC-Lift-Cube-Franka-Direct", cfg=cfg).unwrapped
    env.reset()
    velocity = torch.full((1, env.robot.num_joints), float("nan"))
    env.robot.write_joint_velocity_to_sim_index(velocity=velocity, env_ids=torch.tensor([1], dtype=torch.int32))
    for _ in range(40):
        env.step(torch.zeros(2, env.cfg.action_space))
    print("stepped")
    env.close()
os._exit(0)
"""
PRINTED = "[Warning] [] Invalid PhysX transform detected for /World/envs/env_1/Robot/"


def run(backend: str, log: Path) -> str:
    """Step bad physics; return the log."""
    assert run_child([sys.executable, "-c", CHILD, str(log), backend], log=log) == 0, log.read_text()
    return log.read_text()


def test_newton_does_not_print_what_its_flags_tell(backend: str, tmp_path: Path) -> None:
    if backend != "newton_mjwarp":
        pytest.skip("Newton's flags; PhysX has none")
    # It drops constraint rows: test_contact_capacity.py reads that from its flags.
    text = run(backend, tmp_path / "worker.log")
    assert "stepped\n" in text
    assert "please increase" not in text


def test_a_simulators_flood_is_logged_at_first_then_counted(
    backend: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    if backend != "ovphysx":
        pytest.skip("PhysX' flood; Newton prints none")
    text = run(backend, tmp_path / "worker.log")
    assert text.count(f"\n{PRINTED}") + text.startswith(PRINTED) == FLOOD
    (count,) = re.findall(rf"\(in all (\d+) lines such as\) {re.escape(PRINTED)}", text)
    assert int(count) > FLOOD
    assert "stepped\n" in text
    assert capfd.readouterr().err.count(PRINTED) == 1
