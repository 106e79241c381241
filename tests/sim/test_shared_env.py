# SPDX-License-Identifier: BSD-3-Clause
"""What every task gets from the base environment: kinds of actions and of rewards, and what is logged."""

import time
from collections.abc import Callable

import pytest
import torch
from isaaclab.utils.math import quat_apply_inverse, quat_from_angle_axis, quat_mul

from isaaclab_pc.envs import manipulation
from isaaclab_pc.guards.step_hooks import StepHook, add_step_hook
from tests.sim.checked_state import CheckedState

pytestmark = pytest.mark.sim

NUM_ENVS = 4


@pytest.fixture(scope="module")
def env(make_env: Callable):
    def adjust(cfg) -> None:
        cfg.obs = "state"
        cfg.reset_joint_noise = 0.0

    return make_env("IsaacPC-Lift-Cube-Franka-Direct", NUM_ENVS, adjust)


@pytest.fixture
def changed(env, monkeypatch: pytest.MonkeyPatch) -> Callable:
    """Reset with other values in the config; the env reads these fields at every step."""

    def change(**fields) -> None:
        for name, value in fields.items():
            monkeypatch.setattr(env.cfg, name, value)
        env.reset(seed=1)

    return change


def step(env, arm: list[float], gripper: float = 1.0, count: int = 1) -> tuple:
    result: tuple = ()
    for _ in range(count):
        result = env.step(torch.tensor([[*arm, gripper]]).expand(env.num_envs, -1))
    return result


def angle_between(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Return the angle between two orientations [rad], shape (N,)."""
    return 2.0 * torch.acos((first * second).sum(dim=1).abs().clamp(max=1.0))


def test_a_simulation_that_waits_takes_next_to_no_time(env) -> None:
    before = time.process_time()
    time.sleep(2.0)
    assert (time.process_time() - before) / 2.0 < 0.08


def test_tool_pose_translates_and_rotates_in_the_tools_axes(env, changed: Callable) -> None:
    changed(action="tool_pose", tool_delta=0.01, tool_rotation=0.05)
    # A tool that has turned by its yaw has axes of its own.
    step(env, [0.0, 0.0, 0.0, 0.0, 0.0, 1.0], count=10)
    step(env, [0.0] * 6, count=3)
    pos, quat = env.tool_pos.clone(), env.tool_quat.clone()
    steps = 10
    step(env, [0.0, 0.0, -1.0, 0.0, 1.0, 0.0], count=steps)
    step(env, [0.0] * 6, count=5)
    moved = quat_apply_inverse(quat, env.tool_pos - pos)
    assert (moved[:, 2] < -0.6 * steps * 0.01).all()
    turned = angle_between(env.tool_quat, quat)
    assert (turned > 0.6 * steps * 0.05).all()
    axis = torch.tensor([0.0, 1.0, 0.0]).expand(env.num_envs, 3)
    # Rotated from the right: about the tool's y, not the environment's.
    assert (angle_between(env.tool_quat, quat_mul(quat, quat_from_angle_axis(turned, axis))) < 0.08).all()


def test_joint_position_goes_where_it_says_and_no_faster_than_allowed(env, changed: Callable) -> None:
    changed(action="joint_position")
    lower, upper = env.arm.limits[0, :, 0], env.arm.limits[0, :, 1]
    start = env.robot.data.joint_pos.torch[:, env.arm.joints].clone()
    goal = start[0] + torch.tensor([0.3, -0.2, 0.2, 0.1, -0.3, 0.2, 0.4])
    action = (2.0 * (goal - lower) / (upper - lower) - 1.0).tolist()
    step(env, action)
    first = env.robot.data.joint_pos.torch[:, env.arm.joints]
    assert ((first - start).abs() <= 1.1 * env.cfg.joint_delta).all()
    step(env, action, count=24)
    torch.testing.assert_close(
        env.robot.data.joint_pos.torch[:, env.arm.joints], goal.expand(NUM_ENVS, -1), atol=0.02, rtol=0.0
    )


def test_a_continuous_gripper_stops_half_way(env, changed: Callable) -> None:
    changed(gripper_action="continuous")
    step(env, [0.0, 0.0, 0.0], gripper=-0.5, count=20)
    fingers = env.robot.data.joint_pos.torch[:, env.fingers]
    torch.testing.assert_close(fingers, torch.full_like(fingers, 0.01), atol=0.002, rtol=0.0)
    changed(gripper_action="binary")
    step(env, [0.0, 0.0, 0.0], gripper=0.1, count=20)
    fingers = env.robot.data.joint_pos.torch[:, env.fingers]
    torch.testing.assert_close(fingers, torch.full_like(fingers, 0.04), atol=0.002, rtol=0.0)


def test_sparse_reward_is_1_in_the_steps_in_which_the_task_is_fulfilled(env, changed: Callable) -> None:
    changed(reward="sparse", success_distance=3.0, success_joint_speed=1e3)
    # Two environments have their cube at the goal, the others do not.
    env.goal_pos[2:] = 10.0
    _, reward, *_ = step(env, [0.0, 0.0, 0.0], count=5)
    assert reward.tolist() == [1.0, 1.0, 0.0, 0.0]


def test_time_to_success_and_every_term_are_logged(env, changed: Callable) -> None:
    changed(success_distance=3.0, success_joint_speed=1e3)
    env.goal_pos[2:] = 10.0
    step(env, [0.0, 0.0, 0.0], count=6)
    env.episode_length_buf[:] = env.max_episode_length - 1
    log = step(env, [0.0, 0.0, 0.0])[-1]["log"]
    assert log["Metrics/success_rate"] == 0.5
    # It was fulfilled from the first step on.
    assert log["Metrics/time_to_success"] == pytest.approx(env.step_dt)
    assert {f"Episode_Reward/{term}" for term in env._reward_terms()} <= set(log)


class Mover(StepHook):
    """Writes states of the robot and of the cube wherever a step calls it."""

    def __init__(self, env) -> None:
        self.env = env
        self.moved = 0

    def _move(self) -> None:
        self.moved += 1
        joints = self.env.robot.data.joint_pos.torch + 0.01 * torch.rand(NUM_ENVS, 1)
        self.env.robot.write_joint_position_to_sim_index(position=joints)
        pose = self.env.cube.data.root_link_pose_w.torch.clone()
        pose[:, :2] += 0.02 * torch.rand(NUM_ENVS, 2)
        self.env.cube.write_root_pose_to_sim_index(root_pose=pose)

    def before_step(self, action: torch.Tensor) -> None:
        self._move()

    def after_targets(self) -> None:
        self._move()

    def after_physics(self) -> None:
        self._move()

    def after_step(self) -> None:
        self._move()


@pytest.mark.parametrize("action", ["tool_delta", "tool_pose", "joint_delta", "joint_position"])
def test_no_value_that_is_kept_for_a_step_is_ever_old(
    env, changed: Callable, action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed(action=action)
    monkeypatch.setattr(env, "standing_state", CheckedState())
    expert = env.expert()
    mover = Mover(env)
    remove = add_step_hook(env, mover)
    try:
        for ended in range(NUM_ENVS + 1):
            env.episode_length_buf[:ended] = env.max_episode_length
            before = env.tool_pos.clone()
            observation, *_ = env.step(expert())
            # The observation is that of the new episodes, and what is read now is as the hook left it.
            size = 2 * len(env.arm.joints) + 2 * len(env.fingers)
            assert not torch.equal(observation["policy"][:, size : size + 3], env.tool_pos)
            assert not torch.equal(before, env.tool_pos)
    finally:
        remove()
    assert mover.moved == 4 * (NUM_ENVS + 1)
    assert env.standing_state.kept_reads > 50


def test_an_error_between_terminations_and_rewards_leaves_nothing_old(env, changed: Callable, monkeypatch) -> None:
    changed()
    monkeypatch.setattr(env, "standing_state", CheckedState())

    def broken() -> dict[str, torch.Tensor]:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(env, "_reward_terms", broken)
        with pytest.raises(ZeroDivisionError):
            step(env, [0.0, 0.0, 0.0])
    position = env.cube_pos + torch.tensor([0.1, 0.0, 0.0])
    manipulation.place(env, env.cube, torch.arange(NUM_ENVS), position, manipulation.upright(torch.zeros(NUM_ENVS)))
    torch.testing.assert_close(env.cube_pos, position)
