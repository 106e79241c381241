# SPDX-License-Identifier: BSD-3-Clause
"""Experts on arms that are points and go where they are told."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from isaaclab.utils.math import quat_apply, quat_from_euler_xyz

from isaaclab_pc.envs.expert import (
    Case,
    Expert,
    Pose,
    downward,
    from_above,
    grasp_quat,
    is_closing_on,
    is_firm,
    is_wound_up,
    stay,
    unwinding,
    yaw_within_reach,
)
from isaaclab_pc.envs.kept import StandingState
from isaaclab_pc.tasks.peg_insert.expert import CASES as PEG_CASES

UPRIGHT = (0.0, 0.0, 0.0, 1.0)


class PointArm:
    """Stands for an environment: ``tool_delta`` moves the tool exactly; two joints are what the other kinds read."""

    def __init__(self, num_envs: int = 2, action: str = "tool_delta", gripper: bool = True) -> None:
        self.num_envs = num_envs
        self.device = "cpu"
        self.standing_state = StandingState()
        self.cfg = SimpleNamespace(action=action, tool_delta=0.1, tool_rotation=0.2, joint_delta=0.1, gripper=gripper)
        self.tool_pos = torch.zeros(num_envs, 3)
        self.tool_quat = torch.tensor([UPRIGHT]).repeat(num_envs, 1)
        self.joint_pos = torch.zeros(num_envs, 2)
        default = SimpleNamespace(torch=torch.tensor([[1.0, -0.5]]).repeat(num_envs, 1))
        data = SimpleNamespace(joint_pos=SimpleNamespace(torch=self.joint_pos), default_joint_pos=default)
        self.robot = SimpleNamespace(data=data)
        limits = torch.tensor([-2.0, 2.0]).expand(num_envs, 2, 2)
        self.arm = SimpleNamespace(joints=[0, 1], limits=limits, tool_pos_w=self.tool_pos, inverse_kinematics=self._ik)

    def _ik(self, position: torch.Tensor, quat: torch.Tensor) -> torch.Tensor:
        self.asked = position, quat
        return self.joint_pos + torch.tensor([0.4, -0.2])

    def step(self, actions: torch.Tensor) -> None:
        self.tool_pos += self.cfg.tool_delta * actions[:, :3]


def at(x: float) -> Any:
    def target(env: PointArm) -> Pose:
        return torch.tensor([[x, 0.0, 0.0]]).repeat(env.num_envs, 1), torch.tensor([UPRIGHT]).repeat(env.num_envs, 1)

    return target


def beyond(x: float) -> Any:
    return lambda env: env.tool_pos[:, 0] > x


def turned(roll: float = 0.0, pitch: float = 0.0, yaw: float = 0.0) -> torch.Tensor:
    return quat_from_euler_xyz(*torch.tensor([[roll], [pitch], [yaw]]))


def expert(env: Any, *cases: Case) -> Expert:
    return Expert(env, cases)


def test_the_first_case_that_holds_applies() -> None:
    env = PointArm(3)
    env.tool_pos[:, 0] = torch.tensor([0.0, 0.15, 0.3])
    cases = (
        Case(name="far", when=beyond(0.2), target=at(1.0)),
        Case(name="near", when=beyond(0.1), target=at(1.0)),
        Case(name="else", target=at(-1.0)),
    )
    policy = expert(env, *cases)
    assert policy.case().tolist() == [2, 1, 0]
    assert policy()[:, 0].sign().tolist() == [-1.0, 1.0, 1.0]


def test_a_case_that_hides_those_after_it_is_refused() -> None:
    with pytest.raises(AssertionError, match="'all'"):
        expert(PointArm(), Case(name="all", target=at(1.0)), Case(name="never", target=at(0.0)))


def test_it_has_no_memory() -> None:
    env = PointArm(1)
    cases = (Case(name="stop", when=beyond(0.1), target=at(0.15), closed=True), Case(name="go", target=at(0.5)))
    policy = expert(env, *cases)
    states = [0.0, 0.05, 0.12, 0.2]

    def actions(order: list[float]) -> dict[float, list[float]]:
        seen = {}
        for x in order:
            env.tool_pos[0, 0] = x
            seen[x] = policy()[0].tolist()
            assert policy()[0].tolist() == seen[x]
        return seen

    assert actions(states) == actions(states[::-1])


@pytest.mark.parametrize(
    ("start", "gain", "expected"), [(0.93, 1.0, [0.05, 0.02, 0.0]), (0.93, 0.5, [0.035, 0.0175]), (0.5, 0.5, [0.05])]
)
def test_no_step_is_longer_than_asked_none_overshoots_and_a_gain_shortens_those_near_the_target(
    start: float, gain: float, expected: list[float]
) -> None:
    env = PointArm(1)
    env.tool_pos[0, 0] = start
    policy = expert(env, Case(name="go", target=at(1.0), step_length=0.05, gain=gain))
    ways = []
    for _ in expected:
        before = env.tool_pos.clone()
        env.step(policy())
        ways.append(float((env.tool_pos - before).norm()))
    assert ways == pytest.approx(expected, abs=1e-6)


def test_the_gripper_follows_the_case_and_is_left_out_where_there_is_none() -> None:
    cases = (
        Case(name="hold", when=beyond(0.5), target=at(0.0), closed=True),
        Case(name="open early", when=beyond(0.3), target=at(0.0)),
        Case(name="close", when=beyond(0.1), target=at(0.0), closed=True),
        Case(name="open", target=at(0.0)),
    )
    env = PointArm(4)
    env.tool_pos[:, 0] = torch.tensor([0.6, 0.4, 0.2, 0.0])
    assert expert(env, *cases)()[:, -1].tolist() == [-1.0, 1.0, -1.0, 1.0]
    assert expert(PointArm(1, gripper=False), *cases)().shape == (1, 3)


def test_joint_steps_keep_their_direction() -> None:
    env = PointArm(1, action="joint_delta")
    action = expert(env, Case(name="go", target=at(1.0), step_length=0.05))()
    assert action[0].tolist() == pytest.approx([1.0, -0.5, 1.0])
    position, quat = env.asked
    assert position[0].tolist() == pytest.approx([0.05, 0.0, 0.0])
    assert quat[0].tolist() == pytest.approx(UPRIGHT)


# A step of 0.1 and one of -0.05 rad, between limits of -2 and 2 rad.
@pytest.mark.parametrize(
    ("start", "expected"),
    [([0.5, 0.0], [0.3, -0.025]), ([2.0, -2.0], [1.0, -1.0]), ([1.98, 0.0], [1.0, -0.025])],
)
def test_joint_positions_are_given_in_their_limits(start: list[float], expected: list[float]) -> None:
    env = PointArm(1, action="joint_position")
    env.joint_pos += torch.tensor(start)
    action = expert(env, Case(name="go", target=at(1.0)))()
    assert action[0, :2].tolist() == pytest.approx(expected)


@pytest.mark.parametrize(("angle", "turn"), [(0.05, -0.25), (1.5, -1.0)])
def test_tool_poses_are_along_the_tools_axes_and_turn_no_faster_than_allowed(angle: float, turn: float) -> None:
    env = PointArm(1, action="tool_pose")
    env.tool_quat[0] = turned(pitch=angle)[0]
    action = expert(env, Case(name="go", target=at(1.0), step_length=0.05))()
    along = [0.5 * math.cos(angle), 0.0, 0.5 * math.sin(angle)]
    assert action[0].tolist() == pytest.approx([*along, 0.0, turn, 0.0, 1.0], abs=1e-5)


@pytest.mark.parametrize(
    ("tool_yaw", "yaw", "symmetry", "expected"),
    [
        (0.0, 1.4, math.pi / 2, 1.4 - math.pi / 2),
        (0.0, 1.4, math.pi, 1.4),
        (1.0, 1.4, math.pi / 2, 1.4),
        (2.5, -0.6, math.pi, math.pi - 0.6),
        (-3.0, 3.0, math.pi / 2, 3.0),
    ],
)
def test_a_grasp_points_down_at_the_equal_yaw_nearest_to_the_tool(
    tool_yaw: float, yaw: float, symmetry: float, expected: float
) -> None:
    env: Any = PointArm(1)
    env.tool_quat = downward(torch.tensor([tool_yaw]))
    tool = grasp_quat(env, turned(yaw=yaw), symmetry)
    approach = quat_apply(tool, torch.tensor([[0.0, 0.0, 1.0]]))
    across = quat_apply(tool, torch.tensor([[1.0, 0.0, 0.0]]))
    assert approach[0].tolist() == pytest.approx([0.0, 0.0, -1.0], abs=1e-6)
    assert across[0].tolist() == pytest.approx([math.cos(expected), math.sin(expected), 0.0], abs=1e-6)


@pytest.mark.parametrize("start", [0.05, -0.05])
def test_while_the_tool_turns_to_a_grasp_it_stays_the_nearest(start: float) -> None:
    env: Any = PointArm(1)
    cube = turned(yaw=math.pi / 4)
    env.tool_quat = downward(torch.tensor([start]))
    first = grasp_quat(env, cube)
    goal = math.copysign(math.pi / 4, start)
    for share in (0.25, 0.5, 0.75, 1.0):
        env.tool_quat = downward(torch.tensor([start + share * (goal - start)]))
        assert torch.allclose(grasp_quat(env, cube), first, atol=1e-6)


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        pytest.param([0.0, 0.0, 0.3], [0.0, 0.0, 0.1], id="above: down"),
        pytest.param([0.05, 0.0, 0.3], [0.0, 0.0, 0.1], id="aside, but in the cone: down"),
        pytest.param([0.05, 0.0, 0.15], [0.0, 0.0, 0.2], id="outside the cone: over the pose first"),
        pytest.param([0.01, 0.0, 0.02], [0.0, 0.0, 0.1], id="below the pose: to it"),
    ],
)
def test_the_tool_comes_down_from_inside_a_cone(tool: list[float], expected: list[float]) -> None:
    env: Any = PointArm(1)
    env.tool_pos[0] = torch.tensor(tool)
    pose = torch.tensor([[0.0, 0.0, 0.1]]), env.tool_quat
    position, quat = from_above(env, pose, 0.1)
    assert position[0].tolist() == pytest.approx(expected, abs=1e-6)
    assert (quat == env.tool_quat).all()
    assert env.tool_pos[0].tolist() == pytest.approx(tool)


def test_an_angle_to_the_pose_keeps_the_tool_up() -> None:
    env: Any = PointArm(1)
    env.tool_pos[0, 2] = 0.3
    env.tool_quat = turned(yaw=0.2)
    pose = torch.tensor([[0.0, 0.0, 0.1]]), torch.tensor([UPRIGHT])
    assert float(from_above(env, pose, 0.1)[0][0, 2]) == pytest.approx(0.1)
    assert float(from_above(env, pose, 0.1, turned=0.1)[0][0, 2]) == pytest.approx(0.2)


def gripper(opening: float, speed: float = 0.0, tool: float = 0.0) -> Any:
    """Return an environment with two fingers that open to 4 cm each and the tool so far [m] from the origin."""
    values = SimpleNamespace(
        joint_pos=SimpleNamespace(torch=torch.full((1, 2), opening)),
        joint_vel=SimpleNamespace(torch=torch.full((1, 2), speed)),
    )
    return SimpleNamespace(
        robot=SimpleNamespace(data=values),
        arm=SimpleNamespace(fingers=torch.tensor([0, 1]), finger_travel=torch.full((1, 2), 0.04)),
        finger_openings=lambda: values.joint_pos.torch[:, :2],
        tool_pos=torch.tensor([[tool, 0.0, 0.0]]),
    )


@pytest.mark.parametrize(
    ("opening", "tool", "closes"),
    [
        pytest.param(0.04, 0.01, True, id="around the object: begins"),
        pytest.param(0.04, 0.02, False, id="beside it: not yet"),
        pytest.param(0.03, 0.02, True, id="has begun: goes on"),
        pytest.param(0.03, 0.04, False, id="slipped away: opens"),
        pytest.param(0.01, 0.02, False, id="closed on nothing: opens"),
    ],
)
def test_a_gripper_that_has_begun_to_close_goes_on(opening: float, tool: float, closes: bool) -> None:
    width = torch.tensor([0.05])
    assert is_closing_on(gripper(opening, tool=tool), torch.zeros(1, 3), width).tolist() == [closes]


@pytest.mark.parametrize(
    ("speed", "height", "firm"),
    [
        pytest.param(0.1, 0.025, False, id="turned in the fingers"),
        pytest.param(0.0, 0.025, True, id="at rest"),
        pytest.param(0.1, 0.08, True, id="in the air: not let go because a finger moves"),
    ],
)
def test_a_grasp_is_firm_once_the_fingers_rest(speed: float, height: float, firm: bool) -> None:
    position = torch.tensor([[0.0, 0.0, height]])
    assert is_firm(gripper(0.03, speed), position, torch.tensor([0.05])).tolist() == [firm]


def wrist(last: float, straight: float) -> Any:
    """Return an environment with a tool that points down, at the yaw ``straight`` for a last joint at 0 [rad]."""
    env: Any = PointArm(1)
    env.arm.limits = torch.tensor([-2.9, 2.9]).expand(1, 2, 2)
    env.joint_pos[:, -1] = last
    env.tool_quat = downward(torch.tensor([straight - last]))
    return env


@given(st.floats(-2.9, 2.9), st.floats(-2.8, 2.8), st.floats(-math.pi, math.pi), st.integers(-1, 1))
def test_a_wrist_turns_to_any_yaw_within_its_limits(last: float, goal: float, straight: float, rounds: int) -> None:
    yaw = torch.tensor([straight - goal + 2.0 * math.pi * rounds])
    # Halfway round, either way is as good as the other.
    assume(abs(abs(last - goal) - math.pi) > 0.01)

    for _ in range(60):
        aim = yaw_within_reach(wrist(last, straight), yaw)
        tool_yaw = straight - last
        last -= max(-0.1, min(0.1, math.remainder(float(aim) - tool_yaw, 2.0 * math.pi)))
        assert abs(last) <= 2.901

    assert last == pytest.approx(goal, abs=1e-3)


@pytest.mark.parametrize(
    ("joint", "opening", "wound_up"),
    [
        pytest.param(1.5, 0.04, False, id="outside, but not far"),
        pytest.param(1.9, 0.04, True, id="far outside"),
        pytest.param(-1.9, 0.04, True, id="far outside, on the other side"),
        pytest.param(1.5, 0.03, True, id="on its way out"),
        pytest.param(1.2, 0.03, False, id="nearly back"),
    ],
)
def test_an_arm_that_has_begun_to_unwind_goes_on(joint: float, opening: float, wound_up: bool) -> None:
    env = gripper(opening)
    env.robot.data.joint_pos.torch = torch.tensor([[opening, opening, joint]])
    env.arm.joints = [2]
    assert is_wound_up(env, [-1.0], [1.0]).tolist() == [wound_up]


def test_the_expert_of_peg_insert_judges_no_posture_of_another_arm() -> None:
    six_joints: Any = SimpleNamespace(arm=SimpleNamespace(joints=list(range(6))), grasped=torch.tensor([True, False]))
    (case,) = (case for case in PEG_CASES if case.name == "unwind the arm")
    assert case.when is not None
    assert case.when(six_joints).tolist() == [False, False]


def test_an_arm_unwinds_along_a_straight_line_of_its_joints() -> None:
    env: Any = PointArm(1)
    env.arm.default = torch.tensor([[2.0, -1.0]])
    env.joint_pos[:] = torch.tensor([[1.0, 1.0]])
    jacobian = torch.zeros(1, 6, 2)
    jacobian[0, 0] = torch.tensor([1.0, 0.0])
    jacobian[0, 5] = torch.tensor([0.0, 0.5])
    env.arm.tool_jacobian = lambda: jacobian

    position, quat = unwinding(env)

    # It would move by 1 m and turn by -1 rad; 0.1 m and 0.2 rad are allowed.
    torch.testing.assert_close(position, torch.tensor([[0.1, 0.0, 0.0]]))
    torch.testing.assert_close(quat, turned(yaw=-0.1))


@pytest.mark.parametrize("wrong", [{"gain": 1.5}, {"gain": float("nan")}, {"step_length": 0.0}])
def test_a_case_in_which_the_tool_would_not_move_is_refused(wrong: dict) -> None:
    with pytest.raises(ValueError, match=f"'go'.*{next(iter(wrong))}"):
        Case(name="go", target=stay, **wrong)


def test_changing_the_pose_that_the_tool_has_does_not_move_the_tool() -> None:
    env: Any = PointArm(1)
    position, _ = stay(env)
    position[:, 2] = 5.0
    assert not env.tool_pos.any()
