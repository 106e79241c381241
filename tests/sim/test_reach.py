# SPDX-License-Identifier: BSD-3-Clause
"""The reach task on real physics: what is seen, randomized, reached and counted."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from isaaclab.utils.math import quat_apply

from isaaclab_pc.assets.franka import FRANKA_PANDA_PRIMITIVE_CFG
from tools.assets.author_franka import FRANKA
from tools.assets.kinematics import forward_kinematics

pytestmark = pytest.mark.sim

TOLERANCE = 1e-4  # [m], for float32


def to_env_frame(env, points: torch.Tensor) -> torch.Tensor:
    """Bring points from the gripper's frame to the environment's."""
    quat = env.tool_quat[:, None].expand(-1, points.shape[1], -1)
    return quat_apply(quat, points) + env.tool_pos[:, None]


@pytest.fixture(scope="module")
def env(make_env: Callable):
    return make_env("IsaacPC-Reach-Franka-Direct", 8, **{"scene.points.dtype": "float32"})


def on_target(env, points: torch.Tensor) -> torch.Tensor:
    radius = env.cfg.scene.target.spawn.radius
    distance = (to_env_frame(env, points) - env.target_pos[:, None]).norm(dim=-1)
    return (distance - radius).abs() < TOLERANCE


def test_only_the_target_is_left_and_it_is_seen(env) -> None:
    env.reset(seed=1)
    for _ in range(3):
        obs = env.step(torch.rand(env.num_envs, env.cfg.action_space) * 2 - 1)[0]
        assert on_target(env, obs["points"]).all()
        assert (env.point_cloud.data.count.torch >= 5).all()


def test_what_an_environment_sees_right_after_its_reset_is_its_new_episode(env) -> None:
    env.reset(seed=2)
    old_target = env.target_pos.clone()
    env.episode_length_buf[3] = env.max_episode_length - 1
    obs, _, terminated, truncated, _ = env.step(torch.ones(env.num_envs, env.cfg.action_space))
    assert truncated.tolist() == [index == 3 for index in range(env.num_envs)]
    assert not terminated.any()
    assert (env.target_pos[3] - old_target[3]).norm() > 0.01
    joints = dict(zip(env.robot.joint_names, env.robot.data.joint_pos.torch[3].tolist(), strict=True))
    hand = forward_kinematics(joints, FRANKA.joints)["panda_hand"]
    tool_position = hand[:3, 3] + FRANKA_PANDA_PRIMITIVE_CFG.tcp_offset * hand[:3, 2]
    np.testing.assert_allclose(env.tool_pos[3].numpy(), tool_position, atol=1e-5)
    assert on_target(env, obs["points"])[3].all()


def test_resets_are_inside_their_ranges_and_differ(env) -> None:
    targets = []
    for seed in range(20):
        env.reset(seed=seed)
        targets.append(env.target_pos.clone())
    targets = torch.cat(targets)
    lower, upper = torch.tensor(env.cfg.target_lower), torch.tensor(env.cfg.target_upper)
    assert ((targets >= lower) & (targets <= upper)).all()
    assert len(targets.unique(dim=0)) == len(targets)
    # The whole range is used: each quarter along each axis.
    shares = torch.histc((targets - lower).div(upper - lower)[:, 0], bins=4, min=0, max=1) / len(targets)
    assert (shares > 0.1).all()


def test_the_tool_centre_reaches_its_targets_and_success_counts_at_the_end_of_the_episode(env) -> None:
    env.reset(seed=6)
    goes = torch.arange(env.num_envs)[:, None] != 1
    for step in range(env.max_episode_length):
        action = torch.where(goes, (env.target_pos - env.tool_pos) / env.cfg.tool_delta, 0.0)
        _, _, _, truncated, extras = env.step(action)
        assert truncated.all() == (step == env.max_episode_length - 1)
    assert env.episode_success.tolist() == goes[:, 0].tolist()
    assert env.episode_success.float().mean() == extras["log"]["Metrics/success_rate"]
    seconds = env.episode_time_to_success[env.episode_success]
    assert ((seconds > 0) & (seconds <= env.cfg.episode_length_s)).all()


@pytest.mark.slow_on_newton
def test_joint_targets_stay_inside_the_limits(env) -> None:
    env.reset(seed=1)
    for _ in range(40):
        env.step(torch.full((env.num_envs, env.cfg.action_space), 1e3 - 1))
    position = env.robot.data.joint_pos.torch[:, env.arm.joints]
    slack = 0.02
    assert (position >= env.arm.limits[..., 0] - slack).all()
    assert (position <= env.arm.limits[..., 1] + slack).all()
