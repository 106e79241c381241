# SPDX-License-Identifier: BSD-3-Clause
"""The valve task on real physics: a valve that stays where it is left, valid resets, a push that turns it."""

import math
from collections.abc import Callable

import pytest
import torch
from isaaclab.utils.math import quat_apply, wrap_to_pi

from isaaclab_pc.assets.articulated.valves import PAD_HEIGHT, VALVES, Valve
from isaaclab_pc.assets.objects.object_set import dealt_objects
from isaaclab_pc.envs.quantities import vector_quantities
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.tasks.turn_valve.turn_valve_env import TurnValveEnv
from isaaclab_pc.tasks.turn_valve.turn_valve_env_cfg import TurnValveEnvCfg
from tools.assets.author_articulated import KNOB_RANGE

pytestmark = pytest.mark.sim

NUM_ENVS, ENOUGH = len(VALVES["held_out"]), 15
RESETS = 1000
FRICTION = 0.05  # [N*m], of the valve's configuration
FINGERTIP = 0.0091  # [m], below the tool centre


@pytest.fixture(scope="module")
def env(make_env: Callable):
    fields = {"scene.points.dtype": "float32", "valves": "held_out"}
    return make_env("IsaacPC-Turn-Valve-Franka-Direct", NUM_ENVS, **fields)


@pytest.fixture(scope="module")
def valves(env) -> list[Valve]:
    """The valve of each environment."""
    return [VALVES["held_out"][index] for index in dealt_objects()]


@pytest.fixture(scope="module")
def tops(valves: list[Valve]) -> torch.Tensor:
    """Height of each knob's top [m], (N,)."""
    return torch.tensor([valve.knob_height + valve.knob_length / 2 + valve.knob_radius for valve in valves])


def hold(env, seconds: float, effort: float = 0.0) -> None:
    """Keep the arm where it is while a torque acts on the valves."""
    actions = torch.zeros(NUM_ENVS, env.cfg.action_space)
    torque = torch.full((NUM_ENVS, 1), effort)
    for _ in range(round(seconds / env.step_dt)):
        env.valve.actuators.target_command.set_effort_index(value=torque)
        env.step(actions)


def turn_to(env, angle: torch.Tensor) -> None:
    env.valve.write_joint_position_to_sim_index(position=angle[:, None])
    env.valve.write_joint_velocity_to_sim_index(velocity=torch.zeros(NUM_ENVS, 1))


def bearing(env, position: torch.Tensor) -> torch.Tensor:
    """Return the direction of a position from the valve's axis, in the environment frame [rad], shape (N,)."""
    offset = position + env.scene.env_origins - env.valve.data.root_pos_w.torch
    return torch.atan2(offset[:, 1], offset[:, 0])


def test_every_environment_has_a_valve_of_its_own(env, valves: list[Valve]) -> None:
    assert len(set(map(str, valves))) == NUM_ENVS
    assert {valve.spokes for valve in valves} == set(range(1, 9))
    torch.testing.assert_close(env.radius, torch.tensor([valve.radius for valve in valves]))


def test_friction_holds_the_valve_and_its_stop_ends_the_turn(env) -> None:
    env.reset(seed=1)
    hold(env, 0.2, effort=0.7 * FRICTION)
    # MuJoCo's friction is a soft constraint and creeps.
    assert env.angle.abs().max() < 0.05
    turn_to(env, torch.full((NUM_ENVS,), 0.5))
    hold(env, 0.2)
    assert (env.angle - 0.5).abs().max() < 0.01
    hold(env, 0.5, effort=8.0 * FRICTION)
    hold(env, 0.2)
    assert (env.angle - KNOB_RANGE).abs().max() < 0.1
    assert env.valve.data.joint_vel.torch.abs().max() < 0.05


def test_the_knob_at_its_goal_is_success(env) -> None:
    env.reset(seed=2)
    for share, success in ((0.0, False), (0.97, False), (1.03, True), (-1.03, False)):
        turn_to(env, share * env.target)
        assert (env._success() == success).all(), share
    turn_to(env, env.target)
    torch.testing.assert_close(env.knob_pos, env.goal_pos)
    torch.testing.assert_close(env.angle_of(env.goal_pos), env.target, rtol=0.0, atol=1e-4)


def test_the_reward_leads_a_little_beyond_the_goal_and_not_on(env) -> None:
    env.reset(seed=5)
    paid = []
    for beyond in (-0.3, 0.0, 0.3, 0.4, 0.5):
        turn_to(env, env.target + beyond * env.target.sign())
        paid.append(env._reward_terms()["turn"])
    short, at_goal, beyond_it, further, furthest = paid
    assert ((short < at_goal) & (at_goal < beyond_it) & (beyond_it > further) & (further > furthest)).all()


def test_the_policy_is_told_which_way_to_turn(env) -> None:
    obs, _ = env.reset(seed=6)
    assert vector_quantities(env)[-1].name == "turning_direction"
    torch.testing.assert_close(obs["policy"][:, -1], env.target.sign())
    assert len(env.target.sign().unique()) == 2


def test_resets_are_valid_and_differ(env, tops: torch.Tensor) -> None:
    ids = torch.arange(NUM_ENVS)
    lower, upper = torch.tensor(env.cfg.valve_lower), torch.tensor(env.cfg.valve_upper)
    seen = []
    env.reset(seed=3)
    for _ in range(-(-RESETS // NUM_ENVS)):
        env._reset_idx(ids)
        env.sim.forward()
        env.scene.update(0.0)
        # The gripper hangs above everything, so nothing of the arm below its hand can touch the valve.
        assert (env.tool_pos[:, 2] - FINGERTIP > tops + 0.02).all()
        assert env.angle.abs().max() < 1e-6
        turn = wrap_to_pi(bearing(env, env.goal_pos) - bearing(env, env.knob_pos))
        torch.testing.assert_close(turn, env.target, rtol=0.0, atol=1e-4)
        place = (env.valve.data.root_pos_w.torch - env.scene.env_origins)[:, :2]
        seen.append(torch.cat([place, bearing(env, env.knob_pos)[:, None], env.target[:, None]], dim=1))
    starts = torch.cat(seen)
    place, knob, target = starts[:, :2], starts[:, 2], starts[:, 3]
    assert ((place >= lower - 1e-5) & (place <= upper + 1e-5)).all()
    assert ((target.abs() >= env.cfg.target_lower - 1e-5) & (target.abs() <= env.cfg.target_upper + 1e-5)).all()
    assert len(starts.unique(dim=0)) == len(starts)
    assert (torch.histc(knob, bins=4, min=-math.pi, max=math.pi) / len(starts) > 0.2).all()
    assert 0.45 < (target > 0.0).float().mean() < 0.55


def test_the_knob_is_in_the_cloud(env, valves: list[Valve], tops: torch.Tensor) -> None:
    obs, _ = env.reset(seed=4)
    points = quat_apply(env.tool_quat[:, None].expand(-1, obs["points"].shape[1], -1), obs["points"])
    x, y, z = (points + (env.tool_pos - env.knob_pos)[:, None]).unbind(-1)
    radius = torch.tensor([[valve.knob_radius] for valve in valves])
    on_knob = ((x.square() + y.square()).sqrt() < radius + 1e-3) & (z.abs() < tops[:, None] - PAD_HEIGHT + 0.03)
    assert (on_knob.sum(dim=1) >= 2).all(), on_knob.sum(dim=1)


def test_the_experts_push_turns_the_valve(env) -> None:
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
    cfg = TurnValveEnvCfg()
    cfg.valves = "trian"  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(ConfigError, match=r"env\.valves=trian is unknown"):
        TurnValveEnv(cfg)
