# SPDX-License-Identifier: BSD-3-Clause
"""From actions to joint targets of the arm and the gripper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import warp as wp
from isaaclab.utils.math import quat_from_angle_axis, quat_mul

from isaaclab_pc.envs import arm_kernels as kernels
from isaaclab_pc.tensors.poses import from_frame
from isaaclab_pc.tensors.warp_stream import RecordedLaunches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from isaaclab.assets import Articulation

    from isaaclab_pc.assets.arm import ArmCfg
    from isaaclab_pc.envs.point_cloud_env_cfg import PointCloudEnvCfg


def arm_action_size(cfg: PointCloudEnvCfg) -> int:
    """Return the size of the arm's part of an action."""
    return {"tool_delta": 3, "tool_pose": 6}.get(cfg.action, len(cfg.scene.robot.arm_joints))


def joint_ids(robot: Articulation, names: Sequence[str]) -> torch.Tensor:
    """Look up joints by name; returns their indices in the order of the names, int64, on the robot's device."""
    return torch.tensor(robot.find_joints(names, preserve_order=True)[0], device=robot.device)


def finger_targets(command: torch.Tensor, limits: torch.Tensor, is_binary: bool) -> torch.Tensor:
    """Return the fingers' targets [rad or m], shape (N, F), for commands (N, 1) from closed at -1 to open at 1.

    ``limits`` are closed and open positions [rad or m], (N, F, 2); with ``is_binary`` any command above 0 opens fully
    and any other closes fully.
    """
    closed = limits[..., 0]
    opened = limits[..., 1]
    if is_binary:
        return torch.where(command > 0.0, opened, closed)
    return torch.lerp(closed, opened, (command + 1.0) / 2.0)


def moved_pose(position: torch.Tensor, quat: torch.Tensor, motion: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return poses, (N, 3) [m] and (N, 4), after a motion (N, 6) along the axes of their frame.

    The motion is a translation [m] and a rotation vector [rad] about the pose's origin. Isaac Lab's
    ``apply_delta_pose`` gives the same, but copies a constant to the device at each call, and waits for it.
    """
    turn = motion[:, 3:]
    # The axis is normalized in there; one of length 0 gives the identity.
    rotation = quat_from_angle_axis(torch.linalg.vector_norm(turn, dim=1), turn)
    return position + motion[:, :3], quat_mul(rotation, quat)


@dataclass(frozen=True)
class ArmState:
    """The robot's own state at one moment; read it only."""

    observed: torch.Tensor
    """A policy's observation of the arm, without the last action, shape (N, P); each number is described by
    :func:`~isaaclab_pc.envs.quantities.vector_quantities`."""

    joint_speed: torch.Tensor
    """Speed of the fastest arm joint [rad/s], shape (N,)."""

    finger_openings: torch.Tensor
    """How far each finger is from where the gripper is closed [m], shape (N, F)."""

    @property
    def tool_pos(self) -> torch.Tensor:
        """Tool centre in the environment frame [m], shape (N, 3)."""
        return self.observed[:, -7:-4]

    @property
    def tool_quat(self) -> torch.Tensor:
        """Tool orientation in the world and environment frames, (x, y, z, w), shape (N, 4)."""
        return self.observed[:, -4:]


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
    of the tool go through damped least squares (Buss 2004), in one kernel with all that leads to them.
    """

    def __init__(self, cfg: PointCloudEnvCfg, robot: Articulation, origins: torch.Tensor) -> None:
        """Look up joints and bodies of an initialized robot; ``origins`` (N, 3) are in the world [m]."""
        self.cfg = cfg
        self.robot = robot
        arm: ArmCfg = cfg.scene.robot
        self.joints = joint_ids(robot, arm.arm_joints)
        """Indices of the arm's joints, shape (J,)."""

        self.fingers = joint_ids(robot, arm.finger_joints)
        """Indices of the finger joints, shape (F,)."""

        self.finger_limits = robot.data.soft_joint_pos_limits.torch[:, self.fingers].clone()
        """Positions of the finger joints, closed and open [rad or m], shape (N, F, 2)."""
        for end, positions in enumerate((arm.fingers_closed, arm.fingers_open)):
            if positions is not None:
                self.finger_limits[..., end] = torch.tensor(positions, device=origins.device)

        span = self.finger_limits[..., 1] - self.finger_limits[..., 0]
        self.finger_travel = span.abs() if arm.finger_travel is None else torch.full_like(span, arm.finger_travel)
        """How far each finger moves from closed to open [m], shape (N, F)."""

        self.hand = robot.find_bodies(arm.hand)[0][0]
        self.limits = robot.data.soft_joint_pos_limits.torch[:, self.joints].clone()
        """Smallest and largest positions of the arm's joints [rad], shape (N, J, 2)."""

        self.default = robot.data.default_joint_pos.torch[:, self.joints].clone()
        """Default positions of the arm's joints [rad], shape (N, J)."""

        observed = torch.cat([self.joints, self.fingers]) if cfg.gripper else self.joints
        self._row_size = 2 * len(observed) + 7
        origins = origins.contiguous()
        self._origins = origins
        self._tcp_offset = torch.tensor([0.0, 0.0, arm.tcp_offset], device=origins.device).expand(len(origins), 3)

        self._launches = RecordedLaunches(str(origins.device))
        self._arm = kernels.Arm()
        self._arm.hand = self.hand
        self._arm.tcp_offset = arm.tcp_offset
        self._arm.origins = wp.from_torch(origins)
        self._arm.joints = wp.from_torch(self.joints.int())
        self._arm.fingers = wp.from_torch(self.fingers.int())
        self._arm.finger_limits = wp.from_torch(self.finger_limits)
        self._arm.finger_travel = wp.from_torch(self.finger_travel)
        self._arm.observed = wp.from_torch(observed.int())
        self._arm.rest = wp.from_torch(self.default)
        self._arm.limits = wp.from_torch(self.limits)

    @property
    def tool_pos_w(self) -> torch.Tensor:
        """Tool centre in the world frame [m], shape (N, 3)."""
        data = self.robot.data
        return from_frame(data.body_pos_w.torch[:, self.hand], data.body_quat_w.torch[:, self.hand], self._tcp_offset)

    def state(self) -> ArmState:
        """Return the robot's present state, in tensors of its own."""
        data = self.robot.data
        n = len(self._origins)
        observed = torch.empty(n, self._row_size, device=self._origins.device)
        joint_speed = torch.empty(n, device=self._origins.device)
        openings = torch.empty_like(self.finger_travel)

        arrays = [data.body_link_pose_w, data.joint_pos, data.joint_vel, data.default_joint_pos]
        self._launch(kernels.read_arm, [*arrays, observed, joint_speed, openings])
        return ArmState(observed, joint_speed, openings)

    def command(self, action: torch.Tensor, step_dt: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Return joint targets.

        The velocity target is the one that covers the distance in one step: without it the drives' damping would hold
        the arm to a fraction of the commanded speed.

        Args:
            action: Arm part of the action in [-1, 1], shape (N, size of ``cfg.action``).
            step_dt: Duration of an environment step [s], always the same.

        Returns:
            Joint position targets [rad] and velocity targets [rad/s], both (N, J).
        """
        cfg = self.cfg
        if cfg.action in ("tool_delta", "tool_pose"):
            position, velocity = torch.empty_like(self.default), torch.empty_like(self.default)
            scales = (cfg.tool_delta, cfg.tool_rotation, cfg.joint_delta, step_dt)
            arrays = [*self._kinematics(), action, position, velocity]
            self._launch(kernels.follow_action, arrays, cfg.action == "tool_pose", *scales)
            return position, velocity

        joint_pos = self.robot.data.joint_pos.torch[:, self.joints]
        limit = cfg.joint_delta
        lower = self.limits[..., 0]
        upper = self.limits[..., 1]
        if cfg.action == "joint_delta":
            delta = limit * action
        else:
            delta = (lower + (upper - lower) * (action + 1.0) / 2.0 - joint_pos).clamp(-limit, limit)
        position = (joint_pos + delta).clamp(lower, upper)
        return position, (position - joint_pos) / step_dt

    def inverse_kinematics(self, tool_pos_w: torch.Tensor, tool_quat: torch.Tensor) -> torch.Tensor:
        """Take one step of differential inverse kinematics, and one towards the default joint positions.

        The wanted pose is that of the tool centre in the world: [m], (N, 3), and (x, y, z, w), (N, 4). Returns joint
        positions [rad], shape (N, J), not clamped.
        """
        change = torch.empty_like(self.default)
        self._launch(kernels.move_to_pose, [*self._kinematics(), tool_pos_w, tool_quat, change])
        return self.robot.data.joint_pos.torch[:, self.joints] + change

    def tool_jacobian(self) -> torch.Tensor:
        """Return how the tool centre moves [m] and the tool turns [rad] with the joints [rad], shape (N, 6, J)."""
        # Isaac Lab's Jacobian has no row for the fixed base, and is that of the hand: moved to the tool centre.
        jacobian = self.robot.data.body_link_jacobian_w.torch[:, self.hand - 1][:, :, self.joints].clone()
        lever = self.tool_pos_w - self.robot.data.body_pos_w.torch[:, self.hand]
        jacobian[:, :3] += torch.linalg.cross(jacobian[:, 3:], lever[:, :, None].expand_as(jacobian[:, 3:]), dim=1)
        return jacobian

    def is_held(
        self,
        position: torch.Tensor,
        width: torch.Tensor,
        tool_pos: torch.Tensor,
        openings: torch.Tensor,
        action: torch.Tensor,
        distance: float = 0.03,
        shares: tuple[float, float] = (0.4, 0.75),
    ) -> torch.Tensor:
        """Tell whether the closing gripper is stopped by an object between its fingers, shape (N,), bool.

        The object is held at ``position`` (N, 3) and ``width`` (N,) wide, in the frame of ``tool_pos`` (N, 3), all [m].
        ``openings`` are :attr:`ArmState.finger_openings` [m], (N, F), and the last ``action`` (N, A) has the gripper's
        command at its end. The tool is within ``distance`` [m] of it, and each finger is open by a share of its width
        between ``shares``: from less than a half to more than half a diagonal.
        """
        held = torch.empty(len(position), dtype=torch.bool, device=position.device)
        arrays = [position, width, tool_pos, openings, action, held]
        self._launch(kernels.find_held, arrays, distance, *shares)
        return held

    def _kinematics(self) -> list[Any]:
        data = self.robot.data
        return [data.body_link_pose_w, data.body_link_jacobian_w, data.joint_pos]

    def _launch(self, kernel: Any, arrays: list[Any], *numbers: float) -> None:
        """Launch a kernel of the arm with Isaac Lab's arrays and tensors, then numbers that seldom change."""
        arrays = [array if isinstance(array, torch.Tensor) else array.warp for array in arrays]
        key = (kernel.key, *numbers)
        self._launches.launch(key, kernel, len(self._origins), arrays, lambda: [*numbers, self._arm])
