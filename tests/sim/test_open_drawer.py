# SPDX-License-Identifier: BSD-3-Clause
"""The drawer task on real physics: a drawer that stays where it is left, valid resets, a pull that opens it."""

from collections.abc import Callable

import pytest
import torch
from isaaclab.utils.math import quat_apply, quat_apply_inverse

from isaaclab_pc.assets.articulated.cabinets import CABINETS, Cabinet
from isaaclab_pc.assets.objects.object_set import dealt_objects
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.tasks.open_drawer.open_drawer_env import OpenDrawerEnv
from isaaclab_pc.tasks.open_drawer.open_drawer_env_cfg import OpenDrawerEnvCfg

pytestmark = pytest.mark.sim

NUM_ENVS, ENOUGH = len(CABINETS["held_out"]), 11
RESETS = 1000
FRICTION = 1.0  # [N], of the cabinet's configuration
FINGERTIP = 0.0091  # [m], below the tool centre
PLATE_BELOW = 0.033  # [m], from the middle of a handle to the lowest part that may hold it


@pytest.fixture(scope="module")
def env(make_env: Callable):
    fields = {"scene.points.dtype": "float32", "cabinets": "held_out"}
    return make_env("IsaacPC-Open-Drawer-Franka-Direct", NUM_ENVS, **fields)


@pytest.fixture(scope="module")
def cabinets(env) -> list[Cabinet]:
    """The cabinet of each environment."""
    return [CABINETS["held_out"][index] for index in dealt_objects()]


def hold(env, seconds: float, effort: float = 0.0) -> None:
    """Keep the arm where it is while a force acts on the drawers."""
    actions = torch.zeros(NUM_ENVS, env.cfg.action_space)
    force = torch.full((NUM_ENVS, 1), effort)
    for _ in range(round(seconds / env.step_dt)):
        env.cabinet.actuators.target_command.set_effort_index(value=force)
        env.step(actions)


def put_drawer(env, opening: float, speed: float = 0.0) -> None:
    env.cabinet.write_joint_position_to_sim_index(position=(opening * env.travel)[:, None])
    env.cabinet.write_joint_velocity_to_sim_index(velocity=torch.full((NUM_ENVS, 1), speed))


def test_every_environment_has_a_cabinet_of_its_own(env, cabinets: list[Cabinet]) -> None:
    assert len(set(map(str, cabinets))) == NUM_ENVS
    assert {cabinet.handle for cabinet in cabinets} == {"bar", "knob", "edge"}
    limits = env.cabinet.data.joint_pos_limits.torch[:, 0]
    wanted = torch.tensor([[0.0, cabinet.travel] for cabinet in cabinets])
    torch.testing.assert_close(limits, wanted)


def test_a_drawer_stays_where_it_is_left(env) -> None:
    env.reset(seed=1)
    base = env.cabinet.data.root_pos_w.torch.clone()
    for opening in (0.0, 0.5):
        put_drawer(env, opening)
        hold(env, 0.3)
        assert (env.opening - opening).abs().max() < 1e-3
    torch.testing.assert_close(env.cabinet.data.root_pos_w.torch, base, rtol=0.0, atol=1e-5)


def test_friction_holds_the_drawer_and_its_stop_ends_the_travel(env) -> None:
    env.reset(seed=1)
    hold(env, 0.3, effort=0.7 * FRICTION)
    # MuJoCo's friction is a soft constraint and creeps.
    assert (env.opening * env.travel).max() < 0.002
    hold(env, 0.6, effort=10.0 * FRICTION)
    assert (env.opening - 1.0).abs().max() < 0.02
    hold(env, 0.3)
    assert (env.opening - 1.0).abs().max() < 0.05
    assert env.cabinet.data.joint_vel.torch.abs().max() < 0.01


def test_the_handle_moves_out_of_the_front(env) -> None:
    env.reset(seed=2)
    closed = env.handle_pos.clone()
    put_drawer(env, 0.5)
    env.sim.forward()
    env.scene.update(0.0)
    moved = quat_apply_inverse(env.cabinet.data.root_quat_w.torch, env.handle_pos - closed)
    wanted = torch.tensor([-0.5, 0.0, 0.0]) * env.travel[:, None]
    torch.testing.assert_close(moved, wanted, rtol=0.0, atol=1e-5)


def test_success_is_an_open_drawer_that_is_still(env) -> None:
    env.reset(seed=2)
    for opening, speed, success in ((0.89, 0.0, False), (0.91, 0.0, True), (0.91, 0.2, False)):
        put_drawer(env, opening, speed)
        assert (env._success() == success).all(), (opening, speed)


def test_resets_are_valid_and_differ(env, cabinets: list[Cabinet]) -> None:
    ids = torch.arange(NUM_ENVS)
    lower, upper = torch.tensor(env.cfg.cabinet_lower), torch.tensor(env.cfg.cabinet_upper)
    handles = torch.tensor([cabinet.handle_center for cabinet in cabinets])
    tops = torch.tensor([cabinet.height for cabinet in cabinets])
    seen = []
    env.reset(seed=3)
    for _ in range(-(-RESETS // NUM_ENVS)):
        env._reset_idx(ids)
        env.sim.forward()
        env.scene.update(0.0)
        data = env.cabinet.data
        place, quat = data.root_pos_w.torch - env.scene.env_origins, data.root_quat_w.torch
        yaw = 2.0 * torch.atan2(quat[:, 2], quat[:, 3])
        seen.append(torch.stack([place[:, 0], place[:, 1], yaw], dim=1))
        # The gripper hangs above everything, so nothing of the arm below its hand can touch the cabinet.
        assert (env.tool_pos[:, 2] - FINGERTIP > tops + 0.02).all()
        assert place[:, 2].abs().max() < 1e-6
        assert data.joint_pos.torch.abs().max() < 1e-6
        handle = place + quat_apply(quat, handles)
        torch.testing.assert_close(env.handle_pos, handle, rtol=0.0, atol=1e-5)
    poses = torch.cat(seen)
    assert ((poses >= lower - 1e-5) & (poses <= upper + 1e-5)).all()
    assert len(poses.unique(dim=0)) == len(poses)
    for column in ((poses - lower) / (upper - lower)).T:
        assert (torch.histc(column, bins=4, min=0, max=1) / len(poses) > 0.2).all()


def test_the_handle_is_in_the_cloud(env, cabinets: list[Cabinet]) -> None:
    obs, _ = env.reset(seed=4)
    points = quat_apply(env.tool_quat[:, None].expand(-1, obs["points"].shape[1], -1), obs["points"])
    offset = points + (env.tool_pos - env.handle_pos)[:, None]
    quat = env.cabinet.data.root_quat_w.torch[:, None].expand(-1, points.shape[1], -1)
    x, y, z = quat_apply_inverse(quat, offset).unbind(-1)
    radius = torch.tensor([[cabinet.handle_radius] for cabinet in cabinets])
    on_handle = (x.abs() < radius + 1e-3) & (z < radius + 1e-3) & (z > -PLATE_BELOW - 1e-3)
    on_handle &= y.abs() < env.handle_length[:, None] / 2
    # The hand may be between the camera and a small one.
    assert (on_handle.sum(dim=1) >= 2).sum() >= ENOUGH, on_handle.sum(dim=1)


def test_the_experts_pull_opens_the_drawer(env) -> None:
    env.reset(seed=7)
    policy = env.expert()
    _, start, *_ = env.step(policy())
    reward = start
    for _ in range(env.max_episode_length - 2):
        _, reward, *_ = env.step(policy())
        if env._success().all():
            break
    assert env._success().sum() >= ENOUGH
    assert (reward > start + 0.8).sum() >= ENOUGH


def test_a_set_that_is_not_there_is_refused() -> None:
    cfg = OpenDrawerEnvCfg()
    cfg.cabinets = "trian"  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(ConfigError, match=r"env\.cabinets=trian is unknown"):
        OpenDrawerEnv(cfg)
