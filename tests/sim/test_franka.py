# SPDX-License-Identifier: BSD-3-Clause
"""The Panda of primitives in a real simulation against its public kinematics and data."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from isaaclab_pc.assets.author import INERTIALS
from isaaclab_pc.assets.kinematics import DEFAULT_JOINT_POS, JOINTS, LINKS, forward_kinematics, tool_position

pytestmark = pytest.mark.sim

NUM_ENVS = 8
TOLERANCE = 1e-5
MOVABLE = [joint for joint in JOINTS if joint.axis is not None]


@pytest.fixture(scope="module")
def env(make_env: Callable):
    def adjust(cfg) -> None:
        cfg.obs = "state"
        cfg.action = "joint_delta"
        cfg.reset_joint_noise = 0.0
        cfg.episode_length_s = 60.0

    return make_env("IsaacPC-Lift-Cube-Franka-Direct", NUM_ENVS, adjust)


def pose_robot(env, joint_pos: np.ndarray) -> None:
    """Put the robots at joint positions (N, 9) and compute the links' poses, without a physics step."""
    position = torch.tensor(joint_pos, dtype=torch.float32)
    env.robot.write_joint_position_to_sim_index(position=position)
    env.robot.write_joint_velocity_to_sim_index(velocity=torch.zeros_like(position))
    env.sim.forward()
    env.scene.update(0.0)


def assert_links_match(env, joint_pos: np.ndarray) -> None:
    position = (env.robot.data.body_link_pos_w.torch - env.scene.env_origins[:, None]).numpy()
    rotation = Rotation.from_quat(env.robot.data.body_link_quat_w.torch.reshape(-1, 4).numpy()).as_matrix()
    rotation = rotation.reshape(NUM_ENVS, -1, 3, 3)
    for index in range(NUM_ENVS):
        named = dict(zip(env.robot.joint_names, joint_pos[index].tolist(), strict=True))
        poses = forward_kinematics(named)
        wanted = np.stack([poses[name] for name in env.robot.body_names])
        np.testing.assert_allclose(position[index], wanted[:, :3, 3], atol=TOLERANCE)
        np.testing.assert_allclose(rotation[index], wanted[:, :3, :3], atol=TOLERANCE)
        np.testing.assert_allclose(env.tool_pos[index].numpy(), tool_position(named), atol=TOLERANCE)


def test_names_are_isaac_labs(env) -> None:
    assert set(env.robot.body_names) == set(LINKS)
    assert env.robot.joint_names == list(DEFAULT_JOINT_POS)
    assert env.robot.is_fixed_base


def test_limits_are_the_manufacturers(env) -> None:
    limits = {joint.name: joint for joint in MOVABLE}
    wanted = [limits[name] for name in env.robot.joint_names]
    data = env.robot.data
    for index in range(NUM_ENVS):
        bounds = [(joint.lower, joint.upper) for joint in wanted]
        np.testing.assert_allclose(data.joint_pos_limits.torch[index].numpy(), bounds, atol=TOLERANCE)
        np.testing.assert_allclose(data.joint_vel_limits.torch[index], [j.velocity for j in wanted], rtol=TOLERANCE)
        np.testing.assert_allclose(data.joint_effort_limits.torch[index], [j.effort for j in wanted], rtol=TOLERANCE)


def test_masses_and_inertias_reach_the_solver(env) -> None:
    masses = [INERTIALS[name].mass for name in env.robot.body_names]
    np.testing.assert_allclose(env.robot.data.body_mass.torch[0].numpy(), masses, rtol=1e-5)
    inertia = env.robot.data.body_inertia.torch[0].numpy().reshape(-1, 3, 3)
    for name, simulated in zip(env.robot.body_names, inertia, strict=True):
        xx, yy, zz, xy, xz, yz = INERTIALS[name].inertia
        moments = np.linalg.eigvalsh([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        np.testing.assert_allclose(np.linalg.eigvalsh(simulated), moments, rtol=1e-3, atol=1e-8, err_msg=name)


def test_links_stand_where_the_analytic_kinematics_put_them(env) -> None:
    env.reset()
    default = np.array([[DEFAULT_JOINT_POS[name] for name in env.robot.joint_names]] * NUM_ENVS)
    pose_robot(env, default)
    assert_links_match(env, default)
    limits = env.robot.data.joint_pos_limits.torch.numpy()
    generator = np.random.default_rng(0)
    anywhere = generator.uniform(limits[..., 0], limits[..., 1])
    pose_robot(env, anywhere)
    assert_links_match(env, anywhere)


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
