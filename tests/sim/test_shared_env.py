# SPDX-License-Identifier: BSD-3-Clause
"""What every task gets from the base environment: actions, rewards, what is logged, and a sound scene."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from isaaclab.utils.math import quat_apply_inverse, quat_from_angle_axis, quat_mul

from isaaclab_pc.envs import manipulation
from isaaclab_pc.envs.expert import Case, Expert
from isaaclab_pc.envs.quantities import Quantity
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.guards.step_guard import NoStepGuard
from isaaclab_pc.guards.step_hooks import StepHook, add_step_hook
from isaaclab_pc.tasks.lift.lift_env_cfg import CUBE_EDGE
from tests.sim.checked_state import CheckedState

pytestmark = pytest.mark.sim

NUM_ENVS = 4


@pytest.fixture(scope="module")
def env(make_env: Callable):
    return make_env("IsaacPC-Lift-Cube-Franka-Direct", NUM_ENVS, obs="state", reset_joint_noise=0.0)


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
    time.sleep(1.0)
    assert time.process_time() - before < 0.08


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
    fingers = env.robot.data.joint_pos.torch[:, env.arm.fingers]
    torch.testing.assert_close(fingers, torch.full_like(fingers, 0.01), atol=0.002, rtol=0.0)
    changed(gripper_action="binary")
    step(env, [0.0, 0.0, 0.0], gripper=0.1, count=20)
    fingers = env.robot.data.joint_pos.torch[:, env.arm.fingers]
    torch.testing.assert_close(fingers, torch.full_like(fingers, 0.04), atol=0.002, rtol=0.0)


def test_every_joint_turns_around_within_three_steps(env, monkeypatch: pytest.MonkeyPatch) -> None:
    # The Panda's wrist took 0.2 s on Newton, and the arm swung about its target.
    joints = env.arm.joints
    distance = torch.zeros(NUM_ENVS, len(joints))

    def command(action: torch.Tensor, step_dt: float) -> tuple[torch.Tensor, torch.Tensor]:
        return env.robot.data.joint_pos.torch[:, joints] + distance, distance / step_dt

    monkeypatch.setattr(env.arm, "command", command)
    wanted = env.cfg.joint_delta / env.step_dt
    # Each environment turns another joint.
    for first in range(0, len(joints), NUM_ENVS):
        turned = torch.arange(first, min(first + NUM_ENVS, len(joints)))
        envs = turned - first
        env.reset(seed=6)
        for direction, steps in ((1.0, 6), (-1.0, 3)):
            distance.zero_()
            distance[envs, turned] = direction * env.cfg.joint_delta
            step(env, [0.0] * 3, gripper=0.0, count=steps)
            reached = direction * env.robot.data.joint_vel.torch[:, joints][envs, turned]
            assert (reached > 0.9 * wanted).all(), f"joints {turned + 1}: {reached}"


def test_without_an_action_the_tool_stays_where_it_is(env, changed: Callable) -> None:
    changed(episode_length_s=60.0)
    place = torch.tensor([[x, y, 0.2] for x in (0.4, 0.6) for y in (-0.2, 0.2)])
    expert = Expert(env, [Case(name="go", target=lambda e: (place, e.tool_quat))])
    for _ in range(40):
        env.step(expert())

    before = env.tool_pos
    step(env, [0.0] * 3, gripper=0.0, count=20)
    assert torch.linalg.vector_norm(env.tool_pos - before, dim=1).max() < 0.002


def test_starts_differ_in_place_yaw_and_goal(env) -> None:
    starts = []
    for _ in range(16):
        env._reset_idx(torch.arange(NUM_ENVS))
        yaw = 2.0 * torch.atan2(env.cube_quat[:, 2], env.cube_quat[:, 3])
        assert env.cube_pos[:, 2].tolist() == pytest.approx([CUBE_EDGE / 2] * NUM_ENVS, abs=1e-3)
        starts.append(torch.cat([env.cube_pos[:, :2], yaw[:, None], env.goal_pos], dim=1))
    assert (torch.cat(starts).std(dim=0) > torch.tensor([0.03, 0.06, 0.3, 0.03, 0.03, 0.03])).all()


def test_the_experts_grasp_lifts_and_holds_the_cube_and_only_the_grip_holds_it(env, changed: Callable) -> None:
    changed(episode_length_s=60.0)
    lifted = 0.1  # [m], the lower edge of a goal less the success distance and then some
    expert = env.expert()
    for _ in range(round(5.0 / env.step_dt)):
        env.step(expert())
        if env._success().all():
            break
    for _ in range(round(0.5 / env.step_dt)):
        env.step(expert())
        assert (env.cube_pos[:, 2] > lifted).all()
    assert env.grasped.all()
    assert (torch.linalg.vector_norm(env.cube_pos - env.tool_pos, dim=1) < 0.03).all()
    assert env._success().all()

    step(env, [0.0, 0.0, 0.0], gripper=1.0, count=round(0.5 / env.step_dt))
    assert (env.cube_pos[:, 2] < lifted).all()
    assert not env.grasped.any()


def test_the_sparse_reward_and_what_is_logged_of_success(env, changed: Callable) -> None:
    changed(reward="sparse", success_distance=3.0, success_joint_speed=1e3)
    # Two environments have their cube at the goal, the others do not.
    env.goal_pos[2:] = 10.0
    _, reward, *_ = step(env, [0.0, 0.0, 0.0], count=5)
    assert reward.tolist() == [1.0, 1.0, 0.0, 0.0]

    env.episode_length_buf[:] = env.max_episode_length - 1
    log = step(env, [0.0, 0.0, 0.0])[-1]["log"]
    assert log["Metrics/success_rate"] == 0.5
    # It was fulfilled from the first step on.
    assert log["Metrics/time_to_success"] == pytest.approx(env.step_dt)


def test_every_term_of_the_reward_is_logged(env, changed: Callable) -> None:
    changed()
    env.episode_length_buf[:] = env.max_episode_length - 1
    log = step(env, [0.0, 0.0, 0.0])[-1]["log"]
    assert {f"Episode_Reward/{term}" for term in env._reward_terms()} <= set(log)


class Mover(StepHook):
    """Writes states of the robot and of the cube wherever a step calls it."""

    def __init__(self, env) -> None:
        self.env = env
        self.moved = 0

    def before_step(self, action: torch.Tensor) -> None:
        self.after_targets()

    def after_targets(self) -> None:
        self.moved += 1
        joints = self.env.robot.data.joint_pos.torch + 0.01 * torch.rand(NUM_ENVS, 1)
        self.env.robot.write_joint_position_to_sim_index(position=joints)
        pose = self.env.cube.data.root_link_pose_w.torch.clone()
        pose[:, :2] += 0.02 * torch.rand(NUM_ENVS, 2)
        self.env.cube.write_root_pose_to_sim_index(root_pose=pose)

    after_physics = after_step = after_targets


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
            size = 2 * len(env.arm.joints) + 2 * len(env.arm.fingers)
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
        *(torch.ones(shape) for shape in ((NUM_ENVS, 3), (NUM_ENVS, 1), (NUM_ENVS + 1, 4), (1, 4), (4,), (0,))),
        torch.ones(NUM_ENVS, 4, 1),
        torch.ones(NUM_ENVS, 4, dtype=torch.complex64),
        *(np.ones((NUM_ENVS, 4), np.float32), [[1.0] * 4] * NUM_ENVS, None, 0.5),
    ],
    ids=lambda action: f"{type(action).__name__}{tuple(getattr(action, 'shape', ()))}",
)
def test_actions_of_another_shape_or_type_are_refused_and_change_nothing(env, wrong: Any) -> None:
    before, lengths = env.tool_pos.clone(), env.episode_length_buf.clone()
    of_shape = isinstance(wrong, torch.Tensor) and not wrong.is_complex()
    kind = "complex64" if isinstance(wrong, torch.Tensor) else type(wrong).__name__
    with pytest.raises(ValueError if of_shape else TypeError, match=rf"\({NUM_ENVS}, 4\)" if of_shape else kind):
        env.step(wrong)
    assert torch.equal(env.tool_pos, before)
    assert torch.equal(env.episode_length_buf, lengths)


@pytest.mark.parametrize(("action", "size"), [("tool_delta", 3), ("tool_pose", 6), ("joint_delta", 7)])
def test_every_kind_of_action_has_its_own_width(env, changed: Callable, action: str, size: int) -> None:
    changed(action=action)
    for gripper in (True, False):
        changed(gripper=gripper)
        for width in {3, 4, 6, 7, 8} - {size + gripper}:
            with pytest.raises(ValueError, match=rf"\({NUM_ENVS}, {size + gripper}\)"):
                env.step(torch.zeros(NUM_ENVS, width))


@pytest.mark.parametrize("guarded", [True, False])
def test_actions_of_every_real_type_are_the_same_actions(
    env, changed: Callable, monkeypatch: pytest.MonkeyPatch, guarded: bool
) -> None:
    if not guarded:
        monkeypatch.setattr(env, "step_guard", NoStepGuard())
    results = []
    for kind in (torch.float32, torch.float64, torch.float16, torch.int64, torch.bool):
        changed()
        observation = env.step(torch.ones(NUM_ENVS, 4, dtype=kind, requires_grad=kind == torch.float64))[0]
        results.append(observation["policy"])
        assert not env.actions.requires_grad
    assert {result.dtype for result in results} == {torch.float32}
    assert all(torch.equal(result, results[0]) for result in results)


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
    with pytest.raises(ValueError, match=rf"Env\.{method}\b.*\({NUM_ENVS},\)"):
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
    with pytest.raises(ConfigError, match="task_quantities"):
        env._configure_gym_env_spaces()


def test_newtons_contacts_are_watched_and_physx_gives_no_reading(env, backend: str) -> None:
    step(env, [0.0, 0.0, 0.0])
    assert (env.contact_monitor is not None) == (backend == "newton_mjwarp")
    assert ("Physics/contacts_used_share" in env.extras["log"]) == (backend == "newton_mjwarp")
