# SPDX-License-Identifier: BSD-3-Clause
"""The state machine of scripted policies, on arms that are points and go where they are told."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from isaaclab.utils.math import quat_apply, quat_from_euler_xyz

from isaaclab_pc.envs.scripted import Phase, Pose, ScriptedPolicy, downward

STEP_DT = 0.1
UPRIGHT = (0.0, 0.0, 0.0, 1.0)


class PointArm:
    """Stands for an environment: ``tool_delta`` moves the tool exactly; two joints are what the other kinds read."""

    def __init__(self, num_envs: int = 2, action: str = "tool_delta", gripper: bool = True) -> None:
        self.num_envs, self.device, self.step_dt = num_envs, "cpu", STEP_DT
        self.cfg = SimpleNamespace(action=action, tool_delta=0.1, tool_rotation=0.2, joint_delta=0.1)
        self.cfg.gripper = gripper
        self.tool_pos = torch.zeros(num_envs, 3)
        self.tool_quat = torch.tensor([UPRIGHT]).repeat(num_envs, 1)
        self.episode_length_buf = torch.zeros(num_envs, dtype=torch.long)
        self.goal = torch.tensor([[1.0, 0.0, 0.0]]).repeat(num_envs, 1)
        self.joint_pos = torch.zeros(num_envs, 2)
        self.joint_vel = torch.zeros(num_envs, 2)
        data = SimpleNamespace(
            joint_pos=SimpleNamespace(torch=self.joint_pos), joint_vel=SimpleNamespace(torch=self.joint_vel)
        )
        self.robot = SimpleNamespace(data=data)
        limits = torch.tensor([-2.0, 2.0]).expand(num_envs, 2, 2)
        self.arm = SimpleNamespace(joints=[0, 1], limits=limits, tool_pos_w=self.tool_pos, inverse_kinematics=self._ik)

    def _ik(self, position: torch.Tensor, quat: torch.Tensor) -> torch.Tensor:
        self.asked = position, quat
        return self.joint_pos + torch.tensor([0.4, -0.2])

    def step(self, actions: torch.Tensor) -> None:
        self.tool_pos += self.cfg.tool_delta * actions[:, :3]
        self.episode_length_buf += 1


def at(x: float) -> Any:
    def target(env: PointArm) -> Pose:
        return torch.tensor([[x, 0.0, 0.0]]).repeat(env.num_envs, 1), env.tool_quat.clone()

    return target


def at_goal(env: PointArm) -> Pose:
    return env.goal, torch.tensor([UPRIGHT]).repeat(env.num_envs, 1)


def machine(env: PointArm, *phases: Phase) -> ScriptedPolicy:
    return ScriptedPolicy(env, phases)  # pyright: ignore[reportArgumentType]


def run(env: PointArm, policy: ScriptedPolicy, steps: int) -> list[list[int]]:
    seen = []
    for _ in range(steps):
        actions = policy()
        seen.append(policy.phase.tolist())
        env.step(actions)
    return seen


def test_each_environment_goes_on_when_it_has_arrived() -> None:
    env = PointArm()
    env.tool_pos[1, 0] = 0.1
    policy = machine(env, Phase(target=at(0.2), step_length=0.05, tolerance=0.001), Phase(target=at(1.0)))
    assert run(env, policy, 6) == [[0, 0], [0, 0], [0, 1], [0, 1], [1, 1], [1, 1]]


def test_no_step_is_longer_than_asked_and_none_overshoots() -> None:
    env = PointArm(1)
    env.tool_pos[0, 0] = 0.93
    policy = machine(env, Phase(target=at_goal, step_length=0.05))
    ways = []
    for _ in range(3):
        before = env.tool_pos.clone()
        env.step(policy())
        ways.append(float((env.tool_pos - before).norm()))
    assert ways == pytest.approx([0.05, 0.02, 0.0], abs=1e-6)


def test_a_gain_shortens_steps_near_the_target_only() -> None:
    env = PointArm(1)
    env.tool_pos[0, 0] = 0.93
    policy = machine(env, Phase(target=at_goal, step_length=0.05, gain=0.5))
    env.step(policy())
    assert float(env.tool_pos[0, 0]) == pytest.approx(0.965)
    env.tool_pos[0, 0] = 0.5
    env.step(policy())
    assert float(env.tool_pos[0, 0]) == pytest.approx(0.55)


def test_a_dwell_lasts_its_time_and_at_least_one_step() -> None:
    env = PointArm(1)
    phases = [Phase(target=at(0.0), closed=True, dwell_s=0.3), Phase(target=at(0.0)), Phase(target=at(0.0))]
    assert [phase for (phase,) in run(env, machine(env, *phases), 6)] == [0, 0, 0, 1, 2, 2]


def test_a_moving_arm_and_a_turned_gripper_are_not_done() -> None:
    env = PointArm(4)
    env.joint_vel[1, 1] = -0.5
    env.tool_quat[2] = quat_from_euler_xyz(*torch.tensor([[0.0], [0.0], [0.3]]))[0]
    policy = machine(env, Phase(target=at_goal, still=0.2, turn_tolerance=0.1), Phase(target=at_goal))
    assert run(env, policy, 2)[-1] == [1, 0, 0, 1]


def test_it_starts_over_where_an_episode_begins() -> None:
    env = PointArm()
    policy = machine(env, *[Phase(target=at(0.0), dwell_s=0.2)] * 3)
    run(env, policy, 4)
    env.episode_length_buf[1] = 0
    assert run(env, policy, 2) == [[2, 0], [2, 0]]


def test_it_starts_over_where_the_object_is_lost_in_that_phase() -> None:
    env = PointArm(3)
    slipped = torch.tensor([False, True, True])

    def lost(_: PointArm) -> torch.Tensor:
        return slipped

    policy = machine(env, Phase(target=at(0.0)), Phase(target=at(0.0), dwell_s=0.2, lost=lost), Phase(target=at(0.0)))
    slipped[2] = False
    assert run(env, policy, 2) == [[0, 0, 0], [1, 1, 1]]
    assert run(env, policy, 1) == [[1, 0, 1]]
    slipped[2] = True
    assert run(env, policy, 1) == [[2, 1, 0]]
    assert run(env, policy, 1) == [[2, 0, 1]]


def test_a_held_target_stays_where_it_was_and_another_follows() -> None:
    env = PointArm(2)
    phases = Phase(target=at_goal), Phase(target=at_goal, hold=True, dwell_s=1.0), Phase(target=at_goal)
    policy = machine(env, *phases)
    run(env, policy, 2)
    env.goal[:, 1] = 5.0
    assert (policy()[:, 1] == 0.0).all()
    env.episode_length_buf[1] = 0
    policy()  # the other one starts over and takes the moved goal
    env.episode_length_buf[1] = 1
    actions = policy()
    assert actions[0, 1] == 0.0
    assert actions[1, 1] > 0.0


def test_the_gripper_follows_the_phase_and_is_left_out_where_there_is_none() -> None:
    phases = [Phase(target=at(0.0)), Phase(target=at(0.0), closed=True)]
    env = PointArm(1)
    policy = machine(env, *phases)
    assert policy()[0, -1] == 1.0
    env.episode_length_buf += 1
    assert policy()[0, -1] == -1.0
    assert machine(PointArm(1, gripper=False), *phases)().shape == (1, 3)


def test_joint_steps_keep_their_direction() -> None:
    env = PointArm(1, action="joint_delta")
    action = machine(env, Phase(target=at_goal, step_length=0.05))()
    assert action[0].tolist() == pytest.approx([1.0, -0.5, 1.0])
    position, quat = env.asked
    assert position[0].tolist() == pytest.approx([0.05, 0.0, 0.0])
    assert quat[0].tolist() == pytest.approx(UPRIGHT)


def test_joint_positions_are_given_in_their_limits() -> None:
    env = PointArm(1, action="joint_position")
    env.joint_pos += torch.tensor([0.5, 0.0])
    action = machine(env, Phase(target=at_goal))()
    # A step of 0.1 and one of -0.05 rad, between limits of -2 and 2 rad.
    assert action[0].tolist() == pytest.approx([0.6 / 2.0, -0.05 / 2.0, 1.0])


@pytest.mark.parametrize(("angle", "turn"), [(0.05, -0.25), (1.5, -1.0)])
def test_tool_poses_turn_the_tool_no_faster_than_allowed(angle: float, turn: float) -> None:
    env = PointArm(1, action="tool_pose")
    env.tool_quat[0] = quat_from_euler_xyz(*torch.tensor([[0.0], [angle], [0.0]]))[0]
    action = machine(env, Phase(target=at_goal, step_length=0.05))()
    assert action[0].tolist() == pytest.approx([0.5, 0.0, 0.0, 0.0, turn, 0.0, 1.0], abs=1e-5)


@pytest.mark.parametrize(("yaw", "symmetry", "expected"), [(1.4, math.pi / 2, 1.4 - math.pi / 2), (1.4, math.pi, 1.4)])
def test_the_gripper_points_down_at_the_nearest_equal_yaw(yaw: float, symmetry: float, expected: float) -> None:
    angles = torch.tensor([[0.0], [0.0], [yaw]])
    tool = downward(quat_from_euler_xyz(*angles), symmetry)
    approach = quat_apply(tool, torch.tensor([[0.0, 0.0, 1.0]]))
    across = quat_apply(tool, torch.tensor([[1.0, 0.0, 0.0]]))
    assert approach[0].tolist() == pytest.approx([0.0, 0.0, -1.0], abs=1e-6)
    assert across[0].tolist() == pytest.approx([math.cos(expected), math.sin(expected), 0.0], abs=1e-6)
