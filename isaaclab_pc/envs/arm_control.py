# SPDX-License-Identifier: BSD-3-Clause
"""From actions to joint targets of the arm and the gripper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from isaaclab.controllers import DifferentialIKController, DifferentialIKControllerCfg
from isaaclab.utils.math import quat_apply, quat_from_angle_axis, quat_mul

if TYPE_CHECKING:
    from collections.abc import Sequence

    from isaaclab.assets import Articulation

    from isaaclab_pc.assets.arm import ArmCfg
    from isaaclab_pc.envs.point_cloud_env_cfg import PointCloudEnvCfg

ARM_ACTIONS = ("tool_delta", "tool_pose", "joint_delta", "joint_position")
"""Kinds of arm actions."""

_DAMPING = 0.05
"""Damping of the inverse kinematics (the lambda of Buss 2004)."""

_POSTURE_GAIN = 0.1
"""Share of the way to the default joint positions that is asked for in one step, where the tool leaves it free."""

_POSTURE_DAMPING = 0.01
"""Damping of that motion's null space: the larger, the more it moves the tool away from singular poses, too."""

_POSTURE_STEP = 0.03
"""Largest change of a joint that is asked for on that way in one step [rad]."""


def arm_action_size(cfg: PointCloudEnvCfg) -> int:
    """Return the size of the arm's part of an action."""
    return {"tool_delta": 3, "tool_pose": 6}.get(cfg.action, len(cfg.scene.robot.arm_joints))


def joint_ids(robot: Articulation, names: Sequence[str]) -> torch.Tensor:
    """Look up joints by name; returns their indices in the order of the names, int64, on the robot's device."""
    return torch.tensor(robot.find_joints(names, preserve_order=True)[0], device=robot.device)


def finger_targets(command: torch.Tensor, limits: torch.Tensor, is_binary: bool) -> torch.Tensor:
    """Return the fingers' targets for a command of the gripper.

    Args:
        command: From closed at -1 to open at 1, shape (N, 1).
        limits: Positions of the finger joints where the gripper is closed and where it is open [rad or m], shape
            (N, F, 2).
        is_binary: Whether the gripper opens fully for a command above 0 and closes fully for any other.

    Returns:
        Finger positions [rad or m], shape (N, F).
    """
    closed = limits[..., 0]
    opened = limits[..., 1]
    opening = (command + 1.0) / 2.0
    if is_binary:
        opening = (opening > 0.5).float()
    return closed + (opened - closed) * opening


def moved_pose(position: torch.Tensor, quat: torch.Tensor, motion: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return poses after a translation and a turn about their origins.

    Isaac Lab's ``apply_delta_pose`` gives the same, but copies a constant to the device at each call, and waits for it.

    Args:
        position: Positions [m], shape (N, 3).
        quat: Orientations in the same frame, (x, y, z, w), shape (N, 4).
        motion: Translations [m] and rotation vectors [rad] along the axes of that frame, shape (N, 6).

    Returns:
        Positions [m], shape (N, 3), and orientations (x, y, z, w), shape (N, 4).
    """
    turn = motion[:, 3:]
    # The axis is normalized in there; one of length 0 gives the identity.
    rotation = quat_from_angle_axis(torch.linalg.vector_norm(turn, dim=1), turn)
    return position + motion[:, :3], quat_mul(rotation, quat)


class ArmControl:
    """Turns actions in [-1, 1] into joint targets inside the joint limits.

    ================== ==== ==========================================================================================
    ``cfg.action``     size what an action means
    ================== ==== ==========================================================================================
    ``tool_delta``     3    translation of the tool centre along the axes of the environment, ``cfg.tool_delta`` [m] at
                            1; the gripper is held pointing down
    ``tool_pose``      6    translation along the axes of the tool, ``cfg.tool_delta`` [m] at 1, then a rotation vector
                            along these axes through the tool centre, ``cfg.tool_rotation`` [rad] at 1: the axes of a
                            cloud in the frame ``gripper``
    ``joint_delta``    J    change of each joint from where it is, ``cfg.joint_delta`` [rad] at 1
    ``joint_position`` J    where each joint goes, from its lower limit at -1 to its upper limit at 1
    ================== ==== ==========================================================================================

    J is the number of the arm's joints. No joint is asked to move by more than ``cfg.joint_delta`` in a step. Motions
    of the tool go through Isaac Lab's differential inverse kinematics (damped least squares, Buss 2004).
    """

    def __init__(self, cfg: PointCloudEnvCfg, robot: Articulation, device: str) -> None:
        """Look up joints and bodies.

        Args:
            cfg: Kind and scale of the action.
            robot: The initialized robot.
            device: Torch device.
        """
        self.cfg = cfg
        self.robot = robot
        arm: ArmCfg = cfg.scene.robot
        self.joints = joint_ids(robot, arm.arm_joints)
        self.hand = robot.find_bodies(arm.hand)[0][0]
        self.limits = robot.data.soft_joint_pos_limits.torch[:, self.joints].clone()
        """Smallest and largest positions of the arm's joints [rad], shape (N, J, 2)."""

        self.default = robot.data.default_joint_pos.torch[:, self.joints].clone()
        """Default positions of the arm's joints [rad], shape (N, J)."""

        self._posture_damping = _POSTURE_DAMPING**2 * torch.eye(6, device=device)

        n = self.limits.shape[0]
        self._tcp_offset = torch.tensor([0.0, 0.0, arm.tcp_offset], device=device).expand(n, 3)
        self._down = torch.tensor([1.0, 0.0, 0.0, 0.0], device=device).expand(n, 4)
        ik = DifferentialIKControllerCfg(command_type="pose", ik_method="dls", ik_params={"lambda_val": _DAMPING})
        self._ik = _InverseKinematics(ik, n, device)

    @property
    def tool_quat(self) -> torch.Tensor:
        """Tool orientation in the world frame, (x, y, z, w), shape (N, 4)."""
        return self.robot.data.body_quat_w.torch[:, self.hand]

    @property
    def tool_pos_w(self) -> torch.Tensor:
        """Tool centre in the world frame [m], shape (N, 3)."""
        return self.robot.data.body_pos_w.torch[:, self.hand] + quat_apply(self.tool_quat, self._tcp_offset)

    def command(self, action: torch.Tensor, step_dt: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Return joint targets.

        The velocity target is the one that covers the distance in one step: without it the drives' damping would hold
        the arm to a fraction of the commanded speed.

        Args:
            action: Arm part of the action in [-1, 1], shape (N, size of ``cfg.action``).
            step_dt: Duration of an environment step [s].

        Returns:
            Joint position targets [rad] and velocity targets [rad/s], both (N, J).
        """
        joint_pos = self.robot.data.joint_pos.torch[:, self.joints]
        limit = self.cfg.joint_delta
        lower = self.limits[..., 0]
        upper = self.limits[..., 1]

        if self.cfg.action == "joint_delta":
            delta = limit * action
        elif self.cfg.action == "joint_position":
            delta = (lower + (upper - lower) * (action + 1.0) / 2.0 - joint_pos).clamp(-limit, limit)
        else:
            delta = self.inverse_kinematics(*self._tool_target(action)) - joint_pos
            # Scaled as a whole, so that the tool keeps its direction near singular poses.
            delta = delta * (limit / delta.abs().amax(dim=1, keepdim=True).clamp_min(1e-6)).clamp(max=1)

        position = (joint_pos + delta).clamp(lower, upper)
        return position, (position - joint_pos) / step_dt

    def _tool_target(self, action: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return the position [m] and the orientation of the tool in the world that an action asks for."""
        translation = self.cfg.tool_delta * action[:, :3]
        if self.cfg.action == "tool_delta":
            return self.tool_pos_w + translation, None
        quat = self.tool_quat
        rotation = self.cfg.tool_rotation * action[:, 3:]
        delta = torch.cat([quat_apply(quat, translation), quat_apply(quat, rotation)], dim=1)
        return moved_pose(self.tool_pos_w, quat, delta)

    def inverse_kinematics(self, tool_pos_w: torch.Tensor, tool_quat: torch.Tensor | None = None) -> torch.Tensor:
        """Take one step of differential inverse kinematics.

        Args:
            tool_pos_w: Wanted tool centre in the world frame [m], shape (N, 3).
            tool_quat: Wanted orientation (x, y, z, w), shape (N, 4); None points the gripper down.

        Returns:
            Joint positions [rad], shape (N, J), not clamped.
        """
        joint_pos = self.robot.data.joint_pos.torch[:, self.joints]
        tool = self.tool_pos_w
        quat = self.tool_quat

        jacobian = self.tool_jacobian()

        wanted_quat = self._down if tool_quat is None else tool_quat
        self._ik.set_command(torch.cat([tool_pos_w, wanted_quat], dim=1), ee_quat=quat)
        return self._ik.compute(tool, quat, jacobian, joint_pos) + self._towards_default(joint_pos, jacobian)

    def tool_jacobian(self) -> torch.Tensor:
        """Return how the tool centre moves [m] and the tool turns [rad] with the joints [rad], shape (N, 6, J)."""
        # Isaac Lab's Jacobian has no row for the fixed base, and is that of the hand: moved to the tool centre.
        jacobian = self.robot.data.body_link_jacobian_w.torch[:, self.hand - 1][:, :, self.joints].clone()
        lever = self.tool_pos_w - self.robot.data.body_pos_w.torch[:, self.hand]
        jacobian[:, :3] += torch.linalg.cross(jacobian[:, 3:], lever[:, :, None].expand_as(jacobian[:, 3:]), dim=1)
        return jacobian

    def _towards_default(self, joint_pos: torch.Tensor, jacobian: torch.Tensor) -> torch.Tensor:
        """Return the part of a motion towards the default joint positions that leaves the tool where it is.

        Near singular poses it moves the tool, too: that is what bends an arm again that was stretched out, where the
        inverse kinematics alone would press the elbow against its limit. This is the null-space term of Liegeois
        (1977), damped.

        Args:
            joint_pos: Joint positions [rad], shape (N, J).
            jacobian: Of the tool centre, shape (N, 6, J).

        Returns:
            Change of the joint positions [rad], shape (N, J).
        """
        wish = (_POSTURE_GAIN * (self.default - joint_pos)).clamp(-_POSTURE_STEP, _POSTURE_STEP)
        moved = (jacobian * wish[:, None]).sum(dim=2)
        return wish - damped_least_squares(jacobian, moved, self._posture_damping)


class _InverseKinematics(DifferentialIKController):
    """Isaac Lab's method ``dls`` without its ``torch.inverse``, which waits for the device at every call."""

    def __init__(self, cfg: DifferentialIKControllerCfg, num_envs: int, device: str) -> None:
        super().__init__(cfg, num_envs, device)
        self._damping = _DAMPING**2 * torch.eye(6, device=device)

    def _compute_delta_joint_pos(self, delta_pose: torch.Tensor, jacobian: torch.Tensor) -> torch.Tensor:
        return damped_least_squares(jacobian, delta_pose, self._damping)


def damped_least_squares(jacobian: torch.Tensor, motion: torch.Tensor, damping: torch.Tensor) -> torch.Tensor:
    """Return the change of the joints that moves the tool, by damped least squares (Buss 2004).

    Nothing here waits for the device. Products and elimination are sums, since a matrix product may be rounded to TF32
    on a GPU, and so may those inside of ``torch.linalg``.

    Args:
        jacobian: Of the tool, shape (N, 6, J).
        motion: Translation [m] and rotation vector [rad] of the tool, shape (N, 6).
        damping: Square of the damping, on the diagonal, shape (6, 6).

    Returns:
        Change of the joint positions [rad], shape (N, J).
    """
    # Environments come last, where each operation runs over contiguous numbers.
    rows = jacobian.permute(1, 2, 0).contiguous()
    system = (rows[:, None] * rows).sum(dim=2) + damping[:, :, None]

    # Gauss-Jordan elimination; the matrix is positive definite, so its pivots are in place. Each round takes the first
    # column away, until the solution is left.
    rest = torch.cat([system, motion.t()[:, None]], dim=1)
    for pivot in range(6):
        row = rest[pivot, 1:] / rest[pivot, :1]
        rest = torch.addcmul(rest[:, 1:], rest[:, :1], row, value=-1.0)
        rest[pivot] = row
    return (rows * rest).sum(dim=0).t()
