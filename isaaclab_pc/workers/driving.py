# SPDX-License-Identifier: BSD-3-Clause
"""A person drives the arm of one environment: what the action's components move, and the policy that asks for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from isaaclab_pc.viz.arm_drive import ArmDrive, Motion

__all__ = ["KEY_S", "drive_of", "driven", "motions_of"]

KEY_S = 0.25
"""Time that a key moves the arm [s]: until a keyboard repeats a key that is held."""

_AXES = ("x", "y", "z")
_WHERE = ("away from the base", "to the base's left", "up")
_WHERE_OF_TOOL = ("along the hand's x axis", "across it, as the fingers move", "where the hand points")
_MOVE_KEYS = (("K", "I"), ("L", "J"), ("O", "U"))
_TURN_KEYS = (("H", "F"), ("G", "T"), ("Y", "R"))
"""Not W, A, S, D, Q, E and the arrows, which move viser's camera."""

_GRIPPER_KEYS = ("C", "V")


def drive_of(env: Any) -> ArmDrive:
    """Return what a person drives an environment with.

    Args:
        env: The unwrapped :class:`~isaaclab_pc.envs.PointCloudEnv`.
    """
    lower, upper = env.arm.limits[0].T
    default = env.robot.data.default_joint_pos.torch[0, env.arm.joints]
    # Of a joint's position, 0 is the middle of its range: the arm would go there at the start.
    places = 2.0 * (default - lower) / (upper - lower) - 1.0
    return ArmDrive(motions_of(env.cfg, places.tolist()), max(round(KEY_S / env.step_dt), 1))


def motions_of(cfg: Any, places: list[float]) -> list[Motion]:
    """Return what the components of an action move.

    Args:
        cfg: Of a :class:`~isaaclab_pc.envs.PointCloudEnv`.
        places: The arm's default pose as an action ``joint_position``, one number for each joint.
    """
    joints = cfg.scene.robot.arm_joints
    if cfg.action == "joint_position":
        meaning = "-1 and 1 are the ends of the joint's range"
        motions = [Motion(name, meaning, start=at, stays=True) for name, at in zip(joints, places, strict=True)]
    elif cfg.action == "joint_delta":
        motions = [Motion(name, f"1 is {cfg.joint_delta:g} rad a step") for name in joints]
    else:
        where_to = _WHERE_OF_TOOL if cfg.action == "tool_pose" else _WHERE
        moves = zip(_AXES, where_to, _MOVE_KEYS, strict=True)
        motions = [Motion(axis, f"{where}; 1 is {cfg.tool_delta:g} m a step", keys) for axis, where, keys in moves]
        if cfg.action == "tool_pose":
            meaning = f"1 is {cfg.tool_rotation:g} rad a step"
            motions += [Motion(f"about {axis}", meaning, keys) for axis, keys in zip(_AXES, _TURN_KEYS, strict=True)]
    if cfg.gripper:
        motions.append(Motion("gripper", "-1 is closed, 1 is open", _GRIPPER_KEYS, start=1.0, stays=True))
    return motions


def driven(env: Any, drive: ArmDrive) -> Callable[[Any], torch.Tensor]:
    """Return the policy that does what a person asks for in one environment, and rests in the others.

    Args:
        env: The unwrapped environment.
        drive: The person's.
    """
    rest = torch.tensor([motion.start for motion in drive.motions], device=env.device)

    def act(_: Any) -> torch.Tensor:
        actions = rest.repeat(env.num_envs, 1)
        actions[drive.env] = torch.tensor(drive.next_action(), device=env.device)
        return actions

    return act
