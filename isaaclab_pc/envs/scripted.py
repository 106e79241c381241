# SPDX-License-Identifier: BSD-3-Clause
"""Scripted policies: the tool goes through an ordered list of poses, by inverse kinematics on the true state.

They show that physics lets a task be solved, they record demonstrations, and learned policies are measured against
them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from isaaclab.utils.math import (
    apply_delta_pose,
    compute_pose_error,
    euler_xyz_from_quat,
    quat_error_magnitude,
    quat_from_euler_xyz,
)

from isaaclab_pc.envs.manipulation import joint_speed
from isaaclab_pc.envs.point_cloud_env import PointCloudEnv

__all__ = ["Phase", "Pose", "ScriptedPolicy", "downward", "raised", "unturned"]

Pose = tuple[torch.Tensor, torch.Tensor]
"""Tool centres in the environment frame [m], shape (N, 3), and orientations (x, y, z, w), shape (N, 4)."""


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One pose to go to, and how. The next phase begins once all conditions that are set hold at the same time."""

    target: Callable[[Any], Pose]
    """Returns the tool's target, for all environments, also those that are in another phase."""

    closed: bool = False
    """Whether the gripper closes."""

    hold: bool = False
    """Whether the target stays what it is when the phase begins; otherwise it is computed anew in every step."""

    step_length: float = 0.012
    """Longest distance that the tool centre is asked to move in one control step [m]."""

    gain: float = 1.0
    """Share of the distance and of the angle to the target that is asked for in one control step, in (0, 1]. At 1 the
    arm may keep swinging about the target by some millimetres; below 1 it comes to rest."""

    tolerance: float = math.inf
    """Largest distance from the target at which the phase is done [m]."""

    turn_tolerance: float = math.inf
    """Largest angle to the target's orientation at which the phase is done [rad]."""

    still: float = math.inf
    """Largest speed of any arm joint at which the phase is done [rad/s]."""

    dwell_s: float = 0.0
    """Shortest duration of the phase [s]; it takes at least one control step."""

    lost: Callable[[Any], torch.Tensor] | None = None
    """Returns in which environments the object slipped away, shape (N,), bool: there the first phase begins again."""


class ScriptedPolicy:
    """Takes each environment through the phases at its own pace; the last phase lasts until the episode ends.

    Call it once before every step; it starts over where an episode has just begun. It returns any kind of action that
    :class:`~isaaclab_pc.envs.arm_control.ArmControl` takes. ``tool_delta`` cannot turn the gripper, so orientations are
    ignored there.

    Example:
        .. code-block:: python

            above = Phase(target=lambda env: raised((env.cube_pos, downward(env.cube_quat)), 0.1), tolerance=0.01)
            grasp = Phase(target=lambda env: (env.cube_pos, downward(env.cube_quat)), closed=True)
            policy = ScriptedPolicy(env.unwrapped, [above, grasp])
            env.reset()
            env.step(policy())
    """

    def __init__(self, env: PointCloudEnv, phases: Sequence[Phase]) -> None:
        """Prepare for an environment.

        Args:
            env: The unwrapped environment; its state is read, never written.
            phases: At least one.
        """
        self._env = env
        self._phases = phases
        self.phase = torch.zeros(env.num_envs, dtype=torch.long, device=env.device)
        """Index of the phase of each environment, shape (N,)."""
        self._steps = torch.zeros_like(self.phase)
        self._held_pos = torch.zeros(env.num_envs, 3, device=env.device)
        self._held_quat = torch.zeros(env.num_envs, 4, device=env.device)
        self._ids = torch.arange(env.num_envs, device=env.device)

        # Fields of the phases as tensors (P,), so that each environment looks up those of its own phase.
        self._closed = self._per_phase([phase.closed for phase in phases])
        self._hold = self._per_phase([phase.hold for phase in phases])
        self._step_length = self._per_phase([phase.step_length for phase in phases])
        self._gain = self._per_phase([phase.gain for phase in phases])
        self._tolerance = self._per_phase([phase.tolerance for phase in phases])
        self._turn_tolerance = self._per_phase([phase.turn_tolerance for phase in phases])
        self._still = self._per_phase([phase.still for phase in phases])
        self._dwell = self._per_phase([max(1, math.ceil(phase.dwell_s / env.step_dt)) for phase in phases])

    def __call__(self) -> torch.Tensor:
        """Return the actions for the current state, shape (N, A), in [-1, 1]."""
        env = self._env
        fresh = env.episode_length_buf == 0
        self.phase[fresh] = 0
        self._steps[fresh] = 0

        position, quat = self._advance()
        distance, angle = compute_pose_error(env.tool_pos, env.tool_quat, position, quat)
        gain = self._gain[self.phase][:, None]
        step = gain * distance
        turn = gain * angle
        length = torch.linalg.vector_norm(step, dim=1).clamp(min=1e-6)
        step = step * (self._step_length[self.phase] / length).clamp(max=1.0)[:, None]

        action = self._joint_action(step, turn) if "joint" in env.cfg.action else self._tool_action(step, turn)
        if not env.cfg.gripper:
            return action
        gripper = torch.where(self._closed[self.phase], -1.0, 1.0)
        return torch.cat([action, gripper[:, None]], dim=1)

    def _per_phase(self, values: list) -> torch.Tensor:
        return torch.tensor(values, device=self._env.device)

    def _advance(self) -> Pose:
        """Move each environment to the phase that it is to be in; return the target."""
        poses = [phase.target(self._env) for phase in self._phases]
        positions = torch.stack([pose[0] for pose in poses])
        quats = torch.stack([pose[1] for pose in poses])

        lost = self._lost()
        done = self._done(*self._target(positions, quats)) & (self.phase < len(self._phases) - 1)
        self.phase = torch.where(lost, 0, self.phase + done.long())
        self._steps[lost | done] = 0

        target = self._target(positions, quats)
        self._steps += 1
        return target

    def _target(self, positions: torch.Tensor, quats: torch.Tensor) -> Pose:
        """Select from the targets of all phases, (P, N, 3) and (P, N, 4), and keep those of phases that begin now."""
        begins = (self._steps == 0)[:, None]
        position = positions[self.phase, self._ids]
        quat = quats[self.phase, self._ids]
        self._held_pos = torch.where(begins, position, self._held_pos)
        self._held_quat = torch.where(begins, quat, self._held_quat)
        hold = self._hold[self.phase][:, None]
        return torch.where(hold, self._held_pos, position), torch.where(hold, self._held_quat, quat)

    def _lost(self) -> torch.Tensor:
        lost = torch.zeros_like(self.phase, dtype=torch.bool)
        for index, phase in enumerate(self._phases):
            if phase.lost is not None:
                lost |= (self.phase == index) & phase.lost(self._env)
        return lost

    def _done(self, position: torch.Tensor, quat: torch.Tensor) -> torch.Tensor:
        env = self._env
        phase = self.phase
        distance = torch.linalg.vector_norm(position - env.tool_pos, dim=1)
        return (
            (distance <= self._tolerance[phase])
            & (quat_error_magnitude(quat, env.tool_quat) <= self._turn_tolerance[phase])
            & (joint_speed(env) <= self._still[phase])
            & (self._steps >= self._dwell[phase])
        )

    def _tool_action(self, step: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
        """Return the action for a step of the tool centre [m] and, where it has one, a turn [rad], each (N, 3)."""
        cfg = self._env.cfg
        translation = (step / cfg.tool_delta).clamp(-1.0, 1.0)
        if cfg.action == "tool_delta":
            return translation
        rotation = turn / cfg.tool_rotation
        rotation = rotation / torch.linalg.vector_norm(rotation, dim=1, keepdim=True).clamp(min=1.0)
        return torch.cat([translation, rotation], dim=1)

    def _joint_action(self, step: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
        """Return the action, (N, 7), for a step of the tool centre [m] and a turn of the tool [rad], each (N, 3)."""
        env = self._env
        joints = env.robot.data.joint_pos.torch[:, env.arm.joints]
        goal = apply_delta_pose(env.arm.tool_pos_w, env.tool_quat, torch.cat([step, turn], dim=1))
        delta = (env.arm.inverse_kinematics(*goal) - joints) / env.cfg.joint_delta

        # One factor for all joints keeps the direction of the motion.
        delta = delta / delta.abs().amax(dim=1, keepdim=True).clamp(min=1.0)
        if env.cfg.action == "joint_delta":
            return delta

        lower, upper = env.arm.limits.unbind(-1)
        return (2.0 * (joints + env.cfg.joint_delta * delta - lower) / (upper - lower) - 1.0).clamp(-1.0, 1.0)


def downward(quat: torch.Tensor, symmetry: float = math.pi / 2) -> torch.Tensor:
    """Point the gripper down, turned by an object's yaw to close across its sides.

    Args:
        quat: Orientation of the object, which stands upright, (x, y, z, w), shape (N, 4).
        symmetry: Yaw after which the object looks the same [rad]: a quarter turn for a cube, a half turn for a bar.
            Of the equal grasps, the one nearest to the default pose is taken.

    Returns:
        Tool orientation (x, y, z, w), shape (N, 4).
    """
    _, _, yaw = euler_xyz_from_quat(quat)
    yaw = torch.remainder(yaw + symmetry / 2, symmetry) - symmetry / 2
    return quat_from_euler_xyz(torch.full_like(yaw, math.pi), torch.zeros_like(yaw), yaw)


def unturned(env: PointCloudEnv) -> torch.Tensor:
    """Point the gripper down with the yaw that it has now.

    A grasped object's own yaw would flip to another of its equal grasps where it slips past half its symmetry.

    Args:
        env: The environment.

    Returns:
        Tool orientation (x, y, z, w), shape (N, 4).
    """
    return downward(env.tool_quat, symmetry=2.0 * math.pi)


def raised(pose: Pose, height: float) -> Pose:
    """Return the pose that is ``height`` [m] above another."""
    position, quat = pose
    return position + position.new_tensor([0.0, 0.0, height]), quat
