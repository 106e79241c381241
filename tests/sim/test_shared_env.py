# SPDX-License-Identifier: BSD-3-Clause
"""What every task gets from the base environment: kinds of actions and of rewards, and what is logged."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from isaaclab.utils.math import quat_apply_inverse, quat_from_angle_axis, quat_mul

from isaaclab_pc.envs import manipulation
from isaaclab_pc.envs.quantities import Quantity
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.guards.step_guard import NoStepGuard
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


@pytest.mark.parametrize(
    "wrong",
    [
        torch.ones(NUM_ENVS, 8),
        torch.ones(NUM_ENVS, 3),
        torch.ones(NUM_ENVS, 1),
        torch.ones(NUM_ENVS + 1, 4),
        torch.ones(1, 4),
        torch.ones(NUM_ENVS),
        torch.ones(4),
        torch.ones(NUM_ENVS, 4, 1),
        torch.ones(0),
    ],
    ids=lambda action: str(tuple(action.shape)),
)
def test_actions_of_another_shape_are_refused_and_change_nothing(env, changed: Callable, wrong: torch.Tensor) -> None:
    changed()
    before = env.tool_pos.clone()
    with pytest.raises(ValueError, match=rf"shape \({NUM_ENVS}, 4\)|expected \({NUM_ENVS}, 4\)"):
        env.step(wrong)
    assert torch.equal(env.tool_pos, before)
    assert not env.episode_length_buf.any()


@pytest.mark.parametrize(("action", "size"), [("tool_delta", 3), ("tool_pose", 6), ("joint_delta", 7)])
def test_every_kind_of_action_has_its_own_width(env, changed: Callable, action: str, size: int) -> None:
    changed(action=action)
    for width in {4, 7, 8} - {size + 1}:
        with pytest.raises(ValueError, match=rf"expected \({NUM_ENVS}, {size + 1}\)"):
            env.step(torch.zeros(NUM_ENVS, width))
    changed(action=action, gripper=False)
    with pytest.raises(ValueError, match=rf"expected \({NUM_ENVS}, {size}\)"):
        env.step(torch.zeros(NUM_ENVS, size + 1))


@pytest.mark.parametrize("wrong", [np.ones((NUM_ENVS, 4), np.float32), [[1.0] * 4] * NUM_ENVS, None, 0.5])
def test_what_is_no_tensor_is_refused(env, changed: Callable, wrong: Any) -> None:
    changed()
    with pytest.raises(TypeError, match=type(wrong).__name__):
        env.step(wrong)
    with pytest.raises(TypeError, match="complex64"):
        env.step(torch.ones(NUM_ENVS, 4, dtype=torch.complex64))


@pytest.mark.parametrize("guarded", [True, False])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int64, torch.bool])
def test_actions_of_every_real_type_are_the_same_actions(
    env, changed: Callable, monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, guarded: bool
) -> None:
    if not guarded:
        monkeypatch.setattr(env, "step_guard", NoStepGuard())
    results = []
    for kind in (torch.float32, dtype):
        changed()
        observation = env.step(torch.ones(NUM_ENVS, 4, dtype=kind, requires_grad=kind == torch.float64))[0]
        results.append(observation["policy"])
    assert torch.equal(*results)
    assert results[1].dtype == torch.float32
    assert not env.actions.requires_grad


@pytest.mark.parametrize("wrong", [torch.ones(NUM_ENVS, dtype=torch.bool), torch.tensor([0.5]), torch.tensor([[0]])])
def test_environments_are_reset_by_their_indices_alone(env, changed: Callable, wrong: torch.Tensor) -> None:
    changed()
    step(env, [0.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="env_ids"):
        env._reset_idx(wrong)
    assert env.episode_length_buf.tolist() == [1] * NUM_ENVS
    env._reset_idx([])
    env._reset_idx([1])
    assert env.episode_length_buf.tolist() == [1, 0, 1, 1]


@pytest.mark.parametrize("method", ["_success", "_failure", "_reward_terms"])
def test_a_task_that_returns_a_column_is_named(
    env, changed: Callable, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    changed()
    column = torch.zeros(NUM_ENVS, 1, dtype=torch.float32 if method == "_reward_terms" else torch.bool)
    monkeypatch.setattr(env, method, lambda: {"reach": column} if method == "_reward_terms" else column)
    with pytest.raises(ValueError, match=rf"Env\.{method}: .*expected \({NUM_ENVS},\)"):
        step(env, [0.0, 0.0, 0.0])


@pytest.mark.parametrize(
    ("lower", "upper", "names"), [([0.0], [1.0, 1.0], ()), ([0.0, 0.0], [1.0], ()), ([0.0], [1.0], ("a", "b"))]
)
def test_draws_whose_bounds_differ_in_number_are_refused(env, lower: list, upper: list, names: tuple) -> None:
    with pytest.raises(ValueError, match="stream 100"):
        env.uniform(torch.arange(NUM_ENVS), 100, lower, upper, names)


def test_a_task_that_describes_more_than_it_returns_is_refused(env, monkeypatch: pytest.MonkeyPatch) -> None:
    more = (*env.task_quantities(), Quantity("surplus", 999, "m", "numbers that are not there"))
    monkeypatch.setattr(env, "task_quantities", lambda: more)
    with pytest.raises(ConfigError, match="task_quantities describes"):
        env._configure_gym_env_spaces()
