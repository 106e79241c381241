# SPDX-License-Identifier: BSD-3-Clause
"""Experts: policies that read the simulator's state and have no memory.

They show that a task can be solved, record demonstrations, and teach policies that see less. A student (DAgger, Ross et
al. 2011) sees the present state only, so that is all an expert may depend on: phases, timers and held targets would
give the same observation different labels.
"""

import math
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from isaaclab.utils.math import (
    compute_pose_error,
    euler_xyz_from_quat,
    quat_apply_inverse,
    quat_error_magnitude,
    quat_from_euler_xyz,
    wrap_to_pi,
)

from isaaclab_pc.envs.arm_control import moved_pose
from isaaclab_pc.envs.point_cloud_env import PointCloudEnv
from isaaclab_pc.tensors.constant_tensor import constant_tensor

_CONE_TIP = 0.015
"""Radius of the cone over an object, at the object [m]."""

_CONE_SLOPE = 0.35
"""Growth of that radius per height."""

_REACH = 0.012
"""Distance of the tool from an object at which the gripper begins to close [m]."""

_STILL_AROUND = 0.03
"""Distance up to which it goes on closing [m]."""

_BEGUN = 0.97
"""Opening of the fingers, as a share of the widest one, below which they have begun to close."""

_MISSED = 0.4
"""Opening of the fingers, as a share of the object's width, below which there is nothing between them."""

_FINGERS_REST = 0.01
"""Speed of a finger below which it rests on what it grasps [m/s]."""

_FAR_OUTSIDE = 0.8
"""How far a joint is outside the range that a task uses where the arm begins to leave its posture [rad]."""

_NEARLY_BACK = 0.25
"""How far it may be outside where it ends to [rad]."""

_TURN_AT_ONCE = 2.0
"""Largest turn that is asked for in one target [rad]: beyond pi, a pose is reached by turning the other way."""

Pose = tuple[torch.Tensor, torch.Tensor]
"""Tool centres in the environment frame [m], shape (N, 3), and orientations (x, y, z, w), shape (N, 4)."""

Where = Callable[[Any], torch.Tensor]
"""Tells in which environments something holds, shape (N,), bool."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """Motion to make where a condition holds."""

    name: str
    """The tool's motion, in a word or two."""

    when: Where | None = None
    """Where the case holds, if none before it does; None: everywhere else."""

    target: Callable[[Any], Pose]
    """Returns the tool's target for all environments, those of other cases included."""

    closed: bool = False
    """Whether the gripper closes."""

    step_length: float = 0.03
    """Longest distance that the tool centre is asked to move in one control step [m]."""

    gain: float = 1.0
    """Share of the distance and of the angle to the target that is asked for in one control step, in (0, 1]. At 1 the
    arm may keep swinging about the target by some millimetres; below 1 it comes to rest."""

    def __post_init__(self) -> None:
        """Refuse a case in which the tool would not move, or overshoot."""
        if not (0.0 < self.gain <= 1.0 and self.step_length > 0.0):
            raise ValueError(
                f"'{self.name}': gain={self.gain} must be in (0, 1], step_length={self.step_length} above 0."
            )


class Expert:
    """Does in each environment what the first case that holds there says.

    It returns any kind of action that :class:`~isaaclab_pc.envs.arm_control.ArmControl` takes. ``tool_delta`` cannot
    turn the gripper, so orientations are ignored there.

    Example:
        .. code-block:: python

            cases = [
                Case(name="close", when=lambda env: at(env, env.cube_pos), target=stay, closed=True),
                Case(name="approach", target=lambda env: (env.cube_pos, grasp_quat(env, env.cube_quat))),
            ]
            expert = Expert(env.unwrapped, cases)
            env.reset()
            env.step(expert())
    """

    def __init__(self, env: PointCloudEnv, cases: Sequence[Case]) -> None:
        """Prepare for an unwrapped environment, which is only read; the last case holds wherever no other does."""
        for case in cases[:-1]:
            assert case.when is not None, f"'{case.name}' holds everywhere: the cases after it never do"

        self.cases = tuple(cases)
        self._env = env
        self._ids = torch.arange(env.num_envs, device=env.device)
        self._step_length = torch.tensor([case.step_length for case in cases], device=env.device)
        self._gain = torch.tensor([case.gain for case in cases], device=env.device)
        self._gripper = torch.tensor([-1.0 if case.closed else 1.0 for case in cases], device=env.device)

    def case(self) -> torch.Tensor:
        """Return the index of the case that holds in each environment, shape (N,), int64."""
        chosen = torch.full_like(self._ids, len(self.cases) - 1)
        for index, case in reversed(list(enumerate(self.cases[:-1]))):
            assert case.when is not None
            chosen = torch.where(case.when(self._env), index, chosen)
        return chosen

    def __call__(self) -> torch.Tensor:
        """Return the actions for the present state, shape (N, A), in [-1, 1]."""
        with self._env.standing_state.still():
            return self._action()

    def _action(self) -> torch.Tensor:
        env = self._env
        case = self.case()
        poses = [case.target(env) for case in self.cases]
        position = torch.stack([pose[0] for pose in poses])[case, self._ids]
        quat = torch.stack([pose[1] for pose in poses])[case, self._ids]

        distance, angle = compute_pose_error(env.tool_pos, env.tool_quat, position, quat)
        gain = self._gain[case][:, None]
        step = gain * distance
        turn = gain * angle
        length = torch.linalg.vector_norm(step, dim=1).clamp(min=1e-6)
        step = step * (self._step_length[case] / length).clamp(max=1.0)[:, None]

        action = self._joint_action(step, turn) if "joint" in env.cfg.action else self._tool_action(step, turn)
        if not env.cfg.gripper:
            return action
        return torch.cat([action, self._gripper[case][:, None]], dim=1)

    def _tool_action(self, step: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
        """Return the action for a step of the tool centre [m] and, where it has one, a turn [rad], each (N, 3)."""
        cfg = self._env.cfg
        if cfg.action == "tool_delta":
            return (step / cfg.tool_delta).clamp(-1.0, 1.0)

        quat = self._env.tool_quat
        translation = (quat_apply_inverse(quat, step) / cfg.tool_delta).clamp(-1.0, 1.0)
        rotation = quat_apply_inverse(quat, turn) / cfg.tool_rotation
        rotation = rotation / torch.linalg.vector_norm(rotation, dim=1, keepdim=True).clamp(min=1.0)
        return torch.cat([translation, rotation], dim=1)

    def _joint_action(self, step: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
        """Return the action, (N, J), for a step of the tool centre [m] and a turn of the tool [rad], each (N, 3)."""
        env = self._env
        joints = env.robot.data.joint_pos.torch[:, env.arm.joints]
        goal = moved_pose(env.arm.tool_pos_w, env.tool_quat, torch.cat([step, turn], dim=1))
        delta = (env.arm.inverse_kinematics(*goal) - joints) / env.cfg.joint_delta

        # One factor for all joints keeps the direction of the motion.
        delta = delta / delta.abs().amax(dim=1, keepdim=True).clamp(min=1.0)
        if env.cfg.action == "joint_delta":
            return delta

        lower, upper = env.arm.limits.unbind(-1)
        return (2.0 * (joints + env.cfg.joint_delta * delta - lower) / (upper - lower) - 1.0).clamp(-1.0, 1.0)


def expert_of(cases: str) -> Callable[[PointCloudEnv], Expert]:
    """Return the method ``expert`` of a task.

    ``cases`` names its cases as ``module:NAME``. They are imported when the expert is made, so their module may import
    the environment.
    """

    def expert(self: PointCloudEnv) -> Expert:
        """Return a policy that solves the task from the simulator's own state: actions (N, A) in [-1, 1] per call."""
        return Expert(self, pkgutil.resolve_name(cases))

    return expert


def downward(yaw: torch.Tensor) -> torch.Tensor:
    """Return the orientations (x, y, z, w), (N, 4), of a gripper that points down, turned by ``yaw`` [rad], (N,)."""
    return quat_from_euler_xyz(torch.full_like(yaw, math.pi), torch.zeros_like(yaw), yaw)


def grasp_quat(env: PointCloudEnv, quat: torch.Tensor, symmetry: float = math.pi / 2) -> torch.Tensor:
    """Point the gripper down, turned to close across an object's sides; returns (x, y, z, w), (N, 4).

    Of the equal grasps it takes the one nearest to the tool's present yaw, which stays the nearest one on the way.
    ``quat`` is the upright object's (x, y, z, w), (N, 4). After a yaw of ``symmetry`` [rad] it looks the same: a
    quarter turn for a cube, a half turn for a bar.
    """
    _, _, yaw = euler_xyz_from_quat(quat)
    _, _, tool_yaw = euler_xyz_from_quat(env.tool_quat)
    return downward(yaw + torch.round((tool_yaw - yaw) / symmetry) * symmetry)


def unturned(env: PointCloudEnv) -> torch.Tensor:
    """Point the gripper down with the yaw that it has now; returns orientations (x, y, z, w), shape (N, 4)."""
    _, _, yaw = euler_xyz_from_quat(env.tool_quat)
    return downward(yaw)


def raised(pose: Pose, height: float) -> Pose:
    """Return the pose that is ``height`` [m] above another."""
    position, quat = pose
    return position + constant_tensor((0.0, 0.0, height), position.device), quat


def stay(env: PointCloudEnv) -> Pose:
    """Return the pose that the tool has; a copy, as the environment keeps its own while it stands still."""
    return env.tool_pos.clone(), unturned(env)


def from_above(env: PointCloudEnv, pose: Pose, clearance: float, *, turned: float = math.inf) -> Pose:
    """Lead the tool to a pose from above: to a place over it first, straight to it from inside a cone over it.

    The place is ``clearance`` [m] higher. An action that turns the tool comes down only within an angle of ``turned``
    [rad] to the pose.
    """
    position, quat = pose
    may_come_down = is_over(env, position) & (quat_error_magnitude(quat, env.tool_quat) < turned)
    over, _ = raised(pose, clearance)
    return torch.where(may_come_down[:, None], position, over), quat


def yaw_within_reach(env: PointCloudEnv, yaw: torch.Tensor) -> torch.Tensor:
    """Return a yaw (N,) on the way to ``yaw`` (N,) [rad] for a tool that points down.

    It turns the shorter way round, or the longer one where the arm's last joint would meet a limit.
    """
    _, _, tool_yaw = euler_xyz_from_quat(env.tool_quat)
    shorter = wrap_to_pi(yaw - tool_yaw)
    longer = shorter - 2.0 * math.pi * torch.sign(shorter)

    last = env.robot.data.joint_pos.torch[:, env.arm.joints[-1]]
    lower, upper = env.arm.limits[:, -1].unbind(-1)
    # The joint's axis points down where the tool does.
    is_out = ((last - shorter) < lower) | ((last - shorter) > upper)
    may_go_round = ((last - longer) > lower) & ((last - longer) < upper)
    turn = torch.where(is_out & may_go_round, longer, shorter)
    return tool_yaw + turn.clamp(-_TURN_AT_ONCE, _TURN_AT_ONCE)


def is_wound_up(env: PointCloudEnv, lower: Sequence[float], upper: Sequence[float]) -> torch.Tensor:
    """Tell whether the arm is in a posture in which it cannot do its task, and is to be led out of it, (N,), bool.

    It begins where a joint is far outside the range from ``lower`` to ``upper`` [rad], J values each, that the task
    uses. Once the fingers have begun to close, which they do on the way out, it goes on until all joints are nearly
    back in it: otherwise the arm would halt where "out" and the task meet.
    """
    joints = env.robot.data.joint_pos.torch[:, env.arm.joints]
    below = constant_tensor(tuple(lower), joints.device) - joints
    above = joints - constant_tensor(tuple(upper), joints.device)
    outside = torch.maximum(below, above).amax(dim=1)
    return outside > torch.where(has_begun_to_close(env), _NEARLY_BACK, _FAR_OUTSIDE)


def unwinding(env: PointCloudEnv) -> Pose:
    """Return where the tool is led by a step in which all joints go straight to their default positions."""
    cfg = env.cfg
    joints = env.robot.data.joint_pos.torch[:, env.arm.joints]
    motion = (env.arm.tool_jacobian() * (env.arm.default - joints)[:, None]).sum(dim=2)

    # One factor for all keeps the joints on their way.
    distance = torch.linalg.vector_norm(motion[:, :3], dim=1) / cfg.tool_delta
    angle = torch.linalg.vector_norm(motion[:, 3:], dim=1) / cfg.tool_rotation
    motion = motion / torch.maximum(distance, angle).clamp(min=1.0)[:, None]
    return moved_pose(env.tool_pos, env.tool_quat, motion)


def fingers_rest(env: PointCloudEnv) -> torch.Tensor:
    """Tell whether no finger moves, shape (N,), bool."""
    return env.robot.data.joint_vel.torch[:, env.arm.fingers].abs().amax(dim=1) < _FINGERS_REST


def finger_opening(env: PointCloudEnv) -> torch.Tensor:
    """Return the mean distance of the fingers from where they meet [m], shape (N,)."""
    return env.finger_openings().mean(dim=1)


def has_begun_to_close(env: PointCloudEnv) -> torch.Tensor:
    """Tell whether the fingers have begun to close, shape (N,), bool."""
    return finger_opening(env) < _BEGUN * env.arm.finger_travel.mean(dim=1)


def is_over(env: PointCloudEnv, position: torch.Tensor) -> torch.Tensor:
    """Tell whether the tool is in a cone over a position (N, 3), from which it can come straight down, (N,), bool.

    The position is the cone's tip in the environment frame [m].
    """
    offset = env.tool_pos - position
    sideways = torch.linalg.vector_norm(offset[:, :2], dim=1)
    return sideways < _CONE_TIP + _CONE_SLOPE * offset[:, 2].clamp(min=0.0)


def is_closing_on(env: PointCloudEnv, position: torch.Tensor, width: torch.Tensor) -> torch.Tensor:
    """Tell whether the gripper is to close, or to go on closing, around an object, shape (N,), bool.

    It begins within 12 mm of where the object is held, (N, 3) in the environment frame [m], which is what a camera
    tells apart at best. Once the fingers have begun to move, it goes on within 3 cm, until they have closed on nothing:
    on less than a share of its width [m], (N,).
    """
    distance = torch.linalg.vector_norm(position - env.tool_pos, dim=1)
    has_begun = has_begun_to_close(env) & (finger_opening(env) > _MISSED * width)
    return (distance < _REACH) | (has_begun & (distance < _STILL_AROUND))


def is_firm(env: PointCloudEnv, position: torch.Tensor, edge: torch.Tensor) -> torch.Tensor:
    """Tell whether a grasped cube may be carried: the fingers are still, or it is off the table already, (N,), bool.

    A cube that is grasped across its diagonal turns in the fingers until they are still. On Newton, one that is lifted
    before slips out of them. Its centre is ``position`` (N, 3) in the environment frame and its ``edge`` (N,) [m].
    """
    return fingers_rest(env) | (position[:, 2] > edge)
