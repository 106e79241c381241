# SPDX-License-Identifier: BSD-3-Clause
"""The arms of primitives in a real simulation against their public kinematics and data."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from isaaclab.utils.math import quat_error_magnitude
from scipy.spatial.transform import Rotation

from isaaclab_pc.assets.arm import ArmCfg
from isaaclab_pc.assets.franka import FRANKA_PANDA_PRIMITIVE_CFG
from isaaclab_pc.assets.robot_import import FINGER_ARMATURE
from isaaclab_pc.assets.ur5e import UR5E_GRIPPER_CFG
from isaaclab_pc.envs.arm_checks import check_arm
from isaaclab_pc.envs.arm_control import joint_ids
from isaaclab_pc.envs.expert import Case, Expert, downward
from isaaclab_pc.envs.point_cloud_env_cfg import use_robot
from isaaclab_pc.errors import ConfigError
from tools.assets.author_franka import FRANKA
from tools.assets.author_ur5e import UR5E
from tools.assets.kinematics import forward_kinematics
from tools.assets.primitives import Arm

pytestmark = pytest.mark.sim

TASK, NUM_ENVS = "IsaacPC-Lift-Cube-Franka-Direct", 8
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Robot:
    arm: Arm
    cfg: ArmCfg


ROBOTS = (Robot(FRANKA, FRANKA_PANDA_PRIMITIVE_CFG), Robot(UR5E, UR5E_GRIPPER_CFG))


@pytest.fixture(scope="module", params=ROBOTS, ids=lambda robot: robot.arm.name)
def robot(request: pytest.FixtureRequest) -> Robot:
    return request.param


@pytest.fixture(scope="module")
def env(make_env: Callable, robot: Robot) -> Any:
    fields = {"obs": "state", "action": "joint_delta", "reset_joint_noise": 0.0, "episode_length_s": 60.0}
    return make_env(TASK, NUM_ENVS, lambda cfg: use_robot(cfg, robot.cfg), **fields)


def pose_robot(env, joint_pos: np.ndarray) -> None:
    """Put the robots at joint positions (N, J) and compute the links' poses, without a physics step."""
    position = torch.tensor(joint_pos, dtype=torch.float32)
    env.robot.write_joint_position_to_sim_index(position=position)
    env.robot.write_joint_velocity_to_sim_index(velocity=torch.zeros_like(position))
    env.sim.forward()
    env.scene.update(0.0)


def assert_links_match(env, robot: Robot, joint_pos: np.ndarray) -> None:
    position = (env.robot.data.body_link_pos_w.torch - env.scene.env_origins[:, None]).numpy()
    rotation = Rotation.from_quat(env.robot.data.body_link_quat_w.torch.reshape(-1, 4).numpy()).as_matrix()
    rotation = rotation.reshape(NUM_ENVS, -1, 3, 3)
    for index in range(NUM_ENVS):
        named = dict(zip(env.robot.joint_names, joint_pos[index].tolist(), strict=True))
        poses = forward_kinematics(named, robot.arm.joints)
        wanted = np.stack([poses[name] for name in env.robot.body_names])
        np.testing.assert_allclose(position[index], wanted[:, :3, 3], atol=TOLERANCE)
        np.testing.assert_allclose(rotation[index], wanted[:, :3, :3], atol=TOLERANCE)
        hand = poses[robot.cfg.hand]
        tool = hand[:3, 3] + robot.cfg.tcp_offset * hand[:3, 2]
        np.testing.assert_allclose(env.tool_pos[index].numpy(), tool, atol=TOLERANCE)


def test_names_and_limits_are_those_of_the_description(env, robot: Robot) -> None:
    assert set(env.robot.body_names) == set(robot.arm.inertials)
    assert env.robot.joint_names == list(robot.cfg.init_state.joint_pos)
    assert env.robot.is_fixed_base
    assert env.single_action_space.shape == (len(robot.cfg.arm_joints) + 1,)

    joints = {joint.name: joint for joint in robot.arm.joints}
    wanted = [joints[name] for name in env.robot.joint_names]
    data = env.robot.data
    limits = [
        (data.joint_pos_limits, [(joint.lower, joint.upper) for joint in wanted]),
        (data.joint_vel_limits, [joint.velocity for joint in wanted]),
        (data.joint_effort_limits, [joint.effort for joint in wanted]),
    ]
    for simulated, one in limits:
        np.testing.assert_allclose(simulated.torch.numpy(), [one] * NUM_ENVS, rtol=TOLERANCE, atol=TOLERANCE)


def test_a_gripper_that_is_open_where_its_configuration_says_closed_is_refused(
    env, monkeypatch: pytest.MonkeyPatch
) -> None:
    arm = env.cfg.scene.robot
    lower, upper = env.robot.data.joint_pos_limits.torch[0, joint_ids(env.robot, arm.finger_joints)].T.tolist()
    monkeypatch.setattr(arm, "fingers_closed", upper)
    monkeypatch.setattr(arm, "fingers_open", lower)
    with pytest.raises(ConfigError, match="fingers_closed"):
        check_arm(env.cfg, env.robot)


def test_masses_and_inertias_reach_the_solver(env, robot: Robot) -> None:
    inertials = robot.arm.inertials
    masses = [inertials[name].mass for name in env.robot.body_names]
    np.testing.assert_allclose(env.robot.data.body_mass.torch[0].numpy(), masses, rtol=1e-5)
    inertia = env.robot.data.body_inertia.torch[0].numpy().reshape(-1, 3, 3)
    for name, simulated in zip(env.robot.body_names, inertia, strict=True):
        xx, yy, zz, xy, xz, yz = inertials[name].inertia
        moments = np.linalg.eigvalsh([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        np.testing.assert_allclose(np.linalg.eigvalsh(simulated), moments, rtol=1e-3, atol=1e-8, err_msg=name)


def test_links_stand_where_the_analytic_kinematics_put_them(env, robot: Robot) -> None:
    env.reset()
    default = np.array([[robot.cfg.init_state.joint_pos[name] for name in env.robot.joint_names]] * NUM_ENVS)
    pose_robot(env, default)
    assert_links_match(env, robot, default)
    limits = env.robot.data.joint_pos_limits.torch.numpy()
    generator = np.random.default_rng(0)
    anywhere = generator.uniform(limits[..., 0], limits[..., 1])
    pose_robot(env, anywhere)
    assert_links_match(env, robot, anywhere)


def test_nothing_pushes_the_robot_at_rest(env) -> None:
    """Zero joint steps ask for the present position, so any contact or weight would carry the arm away."""
    env.reset()
    start = env.robot.data.joint_pos.torch.clone()
    hold = torch.zeros(NUM_ENVS, env.cfg.action_space)
    hold[:, -1] = 1.0
    for _ in range(round(1.0 / env.step_dt)):
        env.step(hold)
    np.testing.assert_allclose(env.robot.data.joint_pos.torch.numpy(), start.numpy(), atol=1e-4)
    assert env.robot.data.joint_vel.torch.abs().max() < 1e-3


def test_the_tool_goes_where_it_is_sent(env) -> None:
    """Corners of a box above the table and turns of the gripper, reached by inverse kinematics and held."""
    env.reset()
    corners = torch.tensor([[x, y, z] for x in (0.4, 0.6) for y in (-0.2, 0.2) for z in (0.1, 0.3)])
    yaw = torch.linspace(-0.6, 0.6, NUM_ENVS)
    quat = downward(yaw)
    policy = Expert(env, [Case(name="go", target=lambda _: (corners, quat))])
    for _ in range(round(1.5 / env.step_dt)):
        env.step(policy())
    assert torch.linalg.vector_norm(env.tool_pos - corners, dim=1).max() < 0.003
    assert quat_error_magnitude(env.tool_quat, quat).max() < 0.02


@pytest.mark.slow_on_newton
def test_a_table_does_not_pull_the_fingers_out_of_their_joints(env, backend: str) -> None:
    """The hand is pressed on the table and drawn across it; a finger of little inertia goes a whole stroke too far."""
    fingers = joint_ids(env.robot, env.cfg.scene.robot.finger_joints)
    armature = FINGER_ARMATURE["physxJoint:armature" if backend == "ovphysx" else "newton:armature"]
    torch.testing.assert_close(env.robot.data.joint_armature.torch[:, fingers], torch.full((NUM_ENVS, 2), armature))
    env.reset(seed=3)
    limits = env.robot.data.joint_pos_limits.torch[0, fingers]
    stroke = float((limits[:, 1] - limits[:, 0]).max())
    place = torch.tensor([0.5, -0.2, -0.05]).expand(NUM_ENVS, 3)
    across = torch.tensor([0.0, 0.4, 0.0])
    press = Expert(env, [Case(name="press", target=lambda e: (place, e.tool_quat))])
    draw = Expert(env, [Case(name="draw across", target=lambda e: (place + across, e.tool_quat))])
    furthest = 0.0
    steps = int(2.5 / env.step_dt)
    for policy in [press] * steps + [draw] * steps:
        env.step(policy())
        position = env.robot.data.joint_pos.torch[:, fingers]
        beyond = torch.maximum(limits[:, 0] - position, position - limits[:, 1])
        furthest = max(furthest, float(beyond.max()))
    assert furthest < 0.5 * stroke
