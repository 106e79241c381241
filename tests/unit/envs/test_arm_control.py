# SPDX-License-Identifier: BSD-3-Clause
"""The arm's kernels do what Isaac Lab's controller and a solver do, and displaced poses are Isaac Lab's."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import warp as wp
from isaaclab.controllers import DifferentialIKController, DifferentialIKControllerCfg
from isaaclab.utils.math import apply_delta_pose, quat_apply

from benchmarks.host_syncs import HostSyncs
from isaaclab_pc.envs.arm_control import ArmControl, moved_pose
from tests.ptx.launches import interpreted

N = 300
"""So that the last block of 256 threads is not full."""

HAND, TCP = 2, 0.1
JOINTS = {6: [0, 1, 2, 4, 5, 6], 7: [0, 1, 2, 3, 4, 5, 6]}
"""Joints of the arm among nine, by their number; the last two are fingers."""

LIMITS = torch.tensor([[-1.0, 1.0]] * 7 + [[0.0, 0.04]] * 2)

DAMPING, POSTURE_DAMPING, POSTURE_GAIN, POSTURE_STEP = 0.05, 0.01, 0.1, 0.03


def random(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def array(tensor: torch.Tensor, dtype: Any = wp.float32) -> Any:
    return SimpleNamespace(torch=tensor, warp=wp.from_torch(tensor, dtype=dtype))


def make_arm(num_joints: int = 7, gripper: dict[str, Any] | None = None, **cfg: Any) -> ArmControl:
    """Return an arm in random poses, of which a third is nearly singular; bodies stand where they like."""
    fingers = {"fingers_closed": None, "fingers_open": None, "finger_travel": None} | (gripper or {})
    pose = random(N, 4, 7, seed=num_joints)
    pose[..., 3:] /= torch.linalg.vector_norm(pose[..., 3:], dim=-1, keepdim=True)
    jacobian = 0.5 * random(N, 3, 6, 9, seed=num_joints + 1)
    jacobian[-N // 3 :, :, 5] = jacobian[-N // 3 :, :, 4] * (1.0 + 1e-4)
    data = SimpleNamespace(
        body_link_pose_w=array(pose, wp.transformf),
        body_pos_w=SimpleNamespace(torch=pose[..., :3]),
        body_quat_w=SimpleNamespace(torch=pose[..., 3:]),
        body_link_jacobian_w=array(jacobian),
        joint_pos=array(0.5 * random(N, 9, seed=3)),
        joint_vel=array(random(N, 9, seed=4)),
        default_joint_pos=array(random(N, 9, seed=5)),
        soft_joint_pos_limits=SimpleNamespace(torch=LIMITS.repeat(N, 1, 1)),
    )
    found = {"arm": JOINTS[num_joints], "fingers": [7, 8]}
    robot: Any = SimpleNamespace(
        data=data,
        device="cpu",
        find_joints=lambda names, preserve_order: (found[names], names),
        find_bodies=lambda name: ([HAND], [name]),
    )
    names = SimpleNamespace(arm_joints="arm", finger_joints="fingers", hand="hand", tcp_offset=TCP, **fingers)
    values = {"action": "tool_delta", "tool_delta": 0.03, "tool_rotation": 0.1, "joint_delta": 0.07, "gripper": True}
    settings: Any = SimpleNamespace(scene=SimpleNamespace(robot=names), **(values | cfg))
    return ArmControl(settings, robot, random(N, 3, seed=6))


def expected_change(arm: ArmControl, position: torch.Tensor, quat: torch.Tensor) -> torch.Tensor:
    """Return Isaac Lab's damped least squares, and a step towards the default positions in their null space."""
    cfg = DifferentialIKControllerCfg(command_type="pose", ik_method="dls", ik_params={"lambda_val": DAMPING})
    controller = DifferentialIKController(cfg, N, "cpu")
    data: Any = arm.robot.data
    jacobian = arm.tool_jacobian()
    joint_pos = data.joint_pos.torch[:, arm.joints]
    controller.set_command(torch.cat([position, quat], dim=1))
    reached = controller.compute(arm.tool_pos_w, data.body_quat_w.torch[:, HAND], jacobian, joint_pos)

    wish = (POSTURE_GAIN * (arm.default - joint_pos)).clamp(-POSTURE_STEP, POSTURE_STEP)
    system = jacobian @ jacobian.mT + POSTURE_DAMPING**2 * torch.eye(6)
    moved = (jacobian @ wish[..., None]).squeeze(-1)
    return reached - joint_pos + wish - (jacobian.mT @ torch.linalg.solve(system, moved)[..., None]).squeeze(-1)


@pytest.mark.parametrize("num_joints", [6, 7])
def test_the_change_of_the_joints_is_isaac_labs_and_a_solvers(num_joints: int) -> None:
    arm = make_arm(num_joints)
    position = arm.tool_pos_w + 0.05 * random(N, 3, seed=8)
    quat = torch.nn.functional.normalize(random(N, 4, seed=9))
    joint_pos = arm.robot.data.joint_pos.torch[:, arm.joints]
    ours = arm.inverse_kinematics(position, quat) - joint_pos
    # Both are off by as much as float32 allows near a singular pose, where the turns of up to pi are large.
    torch.testing.assert_close(ours, expected_change(arm, position, quat), rtol=1e-3, atol=5e-4)


@pytest.mark.parametrize("action", ["tool_delta", "tool_pose"])
def test_an_action_of_the_tool_is_a_step_of_inverse_kinematics_within_all_limits(action: str) -> None:
    arm = make_arm(action=action)
    data: Any = arm.robot.data
    actions = random(N, 3 if action == "tool_delta" else 6, seed=10).clamp(-1.0, 1.0)
    quat = data.body_quat_w.torch[:, HAND]
    if action == "tool_delta":
        target = arm.tool_pos_w + 0.03 * actions, torch.tensor([1.0, 0.0, 0.0, 0.0]).repeat(N, 1)
    else:
        motion = [quat_apply(quat, 0.03 * actions[:, :3]), quat_apply(quat, 0.1 * actions[:, 3:])]
        target = moved_pose(arm.tool_pos_w, quat, torch.cat(motion, dim=1))

    joint_pos = data.joint_pos.torch[:, arm.joints]
    change = arm.inverse_kinematics(*target) - joint_pos
    change = change * (0.07 / change.abs().amax(dim=1, keepdim=True)).clamp(max=1.0)
    expected = (joint_pos + change).clamp(-1.0, 1.0)
    position, velocity = arm.command(actions, step_dt=0.5)
    torch.testing.assert_close(position, expected, rtol=0.0, atol=2e-5)
    torch.testing.assert_close(velocity, (position - joint_pos) / 0.5, rtol=1e-5, atol=1e-6)
    assert (change.abs().amax(dim=1) > 0.069).any(), "some steps are scaled"

    arm.cfg.joint_delta = 0.01
    slower, _ = arm.command(actions, step_dt=0.5)
    back_inside = (joint_pos.abs() - 1.0).clamp_min(0.0101)
    assert ((slower - joint_pos).abs() <= back_inside).all()


def test_a_turn_beyond_pi_goes_the_shorter_way() -> None:
    quarter = make_arm(action="tool_pose", tool_rotation=torch.pi / 2)
    action = torch.zeros(N, 6)
    action[:, 3] = -1.0
    expected, _ = quarter.command(action, step_dt=1.0)
    quarter.cfg.tool_rotation = 3 * torch.pi / 2
    found, _ = quarter.command(-action, step_dt=1.0)
    torch.testing.assert_close(found, expected, rtol=0.0, atol=1e-5)


@pytest.mark.parametrize("spoiled", ["joint_pos", "body_link_jacobian_w", "body_link_pose_w"])
def test_an_arm_that_is_not_finite_leaves_the_others_alone(spoiled: str) -> None:
    arm = make_arm()
    actions = random(N, 3, seed=10)
    rest = [0, 1, 3, 4, N - 1]
    expected = arm.command(actions, 0.5)[0][rest]
    getattr(arm.robot.data, spoiled).torch[2] = torch.nan
    position, velocity = arm.command(actions, 0.5)
    assert position[2].isnan().any()
    assert velocity[2].isnan().any()
    assert torch.equal(position[rest], expected)


def test_the_state_is_what_isaac_labs_data_say() -> None:
    arm = make_arm()
    data: Any = arm.robot.data
    observed = [*JOINTS[7], 7, 8]
    state = arm.state()
    offset = torch.tensor([0.0, 0.0, TCP]).expand(N, 3)
    quat = data.body_quat_w.torch[:, HAND]
    tool = data.body_pos_w.torch[:, HAND] + quat_apply(quat, offset) - random(N, 3, seed=6)
    torch.testing.assert_close(state.tool_pos, tool)
    assert torch.equal(state.tool_quat, quat)
    vel = data.joint_vel.torch
    joints = [(data.joint_pos.torch - data.default_joint_pos.torch)[:, observed], 0.1 * vel[:, observed]]
    torch.testing.assert_close(state.observed, torch.cat([*joints, state.tool_pos, state.tool_quat], dim=1))
    assert torch.equal(state.joint_speed, vel[:, JOINTS[7]].abs().amax(dim=1))

    before = state.tool_quat.clone()
    data.body_link_pose_w.torch[:] += 1.0
    vel[3, 2] = torch.nan
    assert torch.equal(state.tool_quat, before), "it is of one moment"
    assert arm.state().joint_speed.isnan().nonzero().tolist() == [[3]]


def test_fingers_open_from_where_they_are_closed_by_what_they_travel() -> None:
    position = make_arm().robot.data.joint_pos.torch[:, [7, 8]]
    torch.testing.assert_close(make_arm().state().finger_openings, position)
    # A gripper that turns its fingers, and is closed at their larger positions.
    turning = make_arm(gripper={"fingers_closed": (0.8, 0.8), "fingers_open": (0.0, 0.0), "finger_travel": 0.05})
    torch.testing.assert_close(turning.state().finger_openings, 0.05 * (0.8 - position) / 0.8)


def held_by_hand(arm: ArmControl, position: torch.Tensor, width: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
    near = torch.linalg.vector_norm(position - arm.tool_pos_w, dim=1) < 0.03
    share = arm.state().finger_openings / width[:, None]
    return near & ((share > 0.4) & (share < 0.75)).all(dim=1) & (action[:, -1] <= 0.0)


def test_an_object_is_held_near_the_tool_where_both_fingers_are_stopped_and_the_gripper_closes() -> None:
    arm = make_arm()
    arm.robot.data.joint_pos.torch[:, arm.fingers] = 0.03 + 0.006 * random(N, 2, seed=11)
    position = arm.tool_pos_w + 0.013 * random(N, 3, seed=12)
    width = 0.05 + 0.002 * random(N, seed=13)
    action = random(N, 4, seed=14)
    held = arm.is_held(position, width, arm.tool_pos_w, arm.state().finger_openings, action)
    assert held.tolist() == held_by_hand(arm, position, width, action).tolist()
    assert 10 < held.sum() < N - 10


def all_results(arm: ArmControl) -> list[torch.Tensor]:
    state = arm.state()
    width, action = torch.full((N,), 0.05), random(N, 4, seed=14)
    return [
        *(state.observed, state.joint_speed, state.finger_openings),
        *arm.command(random(N, 6, seed=10), 0.5),
        arm.inverse_kinematics(arm.tool_pos_w, torch.nn.functional.normalize(random(N, 4, seed=9))),
        arm.is_held(arm.tool_pos_w, width, arm.tool_pos_w, state.finger_openings, action),
    ]


def test_blocks_of_threads_find_the_same() -> None:
    expected = all_results(make_arm(action="tool_pose"))
    with interpreted() as interpreter:
        found = all_results(make_arm(action="tool_pose"))
    assert {"read_arm", "follow_action", "move_to_pose", "find_held"} <= set(interpreter.launched)
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=5e-4)


def random_poses(num_envs: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return positions, orientations, and motions of which some are tiny, some turn beyond pi, and one is none."""
    generator = torch.Generator().manual_seed(num_envs)
    position, quat, motion = (torch.randn(num_envs, size, generator=generator) for size in (3, 4, 6))
    motion[: num_envs // 4] *= 1e-7
    motion[-num_envs // 4 :, 3:] *= 4.0
    motion[0] = 0.0
    return position, torch.nn.functional.normalize(quat), motion


def test_a_moved_pose_is_isaac_labs() -> None:
    position, quat, motion = random_poses(400)
    for ours, theirs in zip(moved_pose(position, quat, motion), apply_delta_pose(position, quat, motion), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0.0, atol=1e-6)


def test_a_moved_pose_makes_no_tensor_of_numbers_of_the_host() -> None:
    poses = random_poses(4)
    waits = []
    functions: list[Callable] = [apply_delta_pose, moved_pose]
    for function in functions:
        syncs = HostSyncs(ours=["isaaclab_pc", "tests"])
        with syncs:
            function(*poses)
        waits.append(syncs.counts.total())
    assert waits == [1, 0]
