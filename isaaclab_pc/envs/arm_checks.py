# SPDX-License-Identifier: BSD-3-Clause
"""Whether an arm is what environments take it for, in its configuration and once it is built."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from isaaclab.utils.math import quat_apply, quat_apply_inverse, quat_from_angle_axis

from isaaclab_pc.errors import ConfigError, closest

if TYPE_CHECKING:
    from isaaclab_pc.assets.arm import ArmCfg
    from isaaclab_pc.envs.point_cloud_env_cfg import PointCloudEnvCfg

_ROBOT = "env.scene.robot"

_MOVES = 1e-6
"""Motion of a body per motion of a joint, [m/m], [m/rad] or [rad/rad], below which the joint does not carry it."""

_CLEARLY = 1e-3
"""Difference of two distances that tells where a finger moves [m]."""

_NO_LIMIT = 1e6
"""Position of a joint from which a limit means that there is none."""


def check_arm_cfg(arm: ArmCfg, gripper: bool) -> None:
    """Raise ConfigError, naming the field, for an arm that no scene can be built with; starts no simulator."""
    for name in ("arm_joints", "finger_joints"):
        joints = getattr(arm, name)
        needed = name == "arm_joints" or gripper
        if not isinstance(joints, (tuple, list)) or (needed and not joints):
            raise ConfigError(f"{_ROBOT}.{name}={joints}: expected the names of its joints, each a text.")
    joints = [*arm.arm_joints, *arm.finger_joints]
    twice = sorted({joint for joint in joints if joints.count(joint) > 1})
    if twice:
        raise ConfigError(f"{_ROBOT}: arm_joints and finger_joints name {', '.join(twice)} more than once.")

    fingers = len(arm.finger_joints)
    for name in ("fingers_closed", "fingers_open"):
        positions = getattr(arm, name)
        if positions is not None and (len(positions) != fingers or not all(map(math.isfinite, positions))):
            raise ConfigError(
                f"{_ROBOT}.{name}={positions}: expected null, or one position for each of {fingers} joints."
            )
    for name in ("tcp_offset", "finger_travel"):
        length = getattr(arm, name)
        if not (name == "finger_travel" and length is None) and not (
            isinstance(length, (int, float)) and 0 <= length < math.inf
        ):
            raise ConfigError(f"{_ROBOT}.{name}={length}: expected a length of at least 0 [m].")
    rotation = arm.init_state.rot
    if abs(math.hypot(*rotation) - 1.0) > 1e-3:
        raise ConfigError(f"{_ROBOT}.init_state.rot={rotation}: expected a quaternion (x, y, z, w) of length 1.")


def check_arm(cfg: PointCloudEnvCfg, robot: Any) -> None:
    """Check that an initialized robot is what the configuration says and what environments rely on.

    Raises:
        ConfigError: The message names the field of the configuration that mends it.
    """
    arm = cfg.scene.robot
    if not robot.is_fixed_base:
        raise ConfigError(f"{_ROBOT}: its base is free; fix it to the world (fix_root_link in its spawn settings).")
    _check_names("arm_joints", arm.arm_joints, robot.joint_names)
    _check_names("finger_joints", arm.finger_joints, robot.joint_names)
    _check_names("hand", [arm.hand], robot.body_names)
    points = cfg.scene.points
    if points is not None and "gripper" in (points.frame, points.crop_frame):
        _check_names("points.gripper_body", [points.gripper_body], robot.body_names, prefix="env.scene")

    limits = robot.data.soft_joint_pos_limits.torch[0]
    free = [name for name in arm.arm_joints if not (limits[robot.joint_names.index(name)].abs() < _NO_LIMIT).all()]
    if cfg.action == "joint_position" and free:
        raise ConfigError(
            f"env.action=joint_position: {', '.join(free)} of the robot has no limits, between which actions are "
            "positions. Give it limits, or use env.action=joint_delta."
        )
    if cfg.gripper:
        _check_fingers(arm, robot, limits)


def _check_names(field: str, names: Sequence[str], known: Sequence[str], prefix: str = _ROBOT) -> None:
    """Refuse names that an articulation has not: a pattern would match any number of them."""
    for name in names:
        if name not in known:
            raise ConfigError(f"{prefix}.{field}: the robot has no {name}: {closest(name, known)}")


def _check_fingers(arm: ArmCfg, robot: Any, limits: torch.Tensor) -> None:
    """Refuse fingers that close where they should open, across another axis or behind the hand."""
    data = robot.data
    ids = [robot.joint_names.index(name) for name in arm.finger_joints]
    closed = list(arm.fingers_closed or limits[ids, 0].tolist())
    opened = list(arm.fingers_open or limits[ids, 1].tolist())
    if not all(abs(position) < _NO_LIMIT for position in (*closed, *opened)):
        raise ConfigError(f"{_ROBOT}: its fingers have no limits: give fingers_closed and fingers_open.")

    now = data.joint_pos.torch[0, ids].tolist()
    places = []
    for name, joint, at, *ends in zip(arm.finger_joints, ids, now, closed, opened, strict=True):
        place, turns = _finger_places(arm, robot, joint, (0.0, *(end - at for end in ends)))
        _check_axes(arm, name, place)
        if turns and arm.finger_travel is None:
            raise ConfigError(
                f"{_ROBOT}.finger_travel: {name} turns, so its positions are no lengths: give how far a fingertip "
                "moves from closed to open [m]."
            )
        places.append(place)

    # From the middle of several fingers, whether or not the hand's frame is there.
    sideways = torch.stack(places)[:, :, 1]
    if len(places) > 1:
        sideways = sideways - sideways[:, 0].mean()
    sideways = sideways.abs()
    wrong = (sideways[:, 1] > sideways[:, 2] + _CLEARLY).tolist()
    if any(wrong):
        right = [(b, a) if swap else (a, b) for a, b, swap in zip(closed, opened, wrong, strict=True)]
        names = ", ".join(name for name, swap in zip(arm.finger_joints, wrong, strict=True) if swap)
        raise ConfigError(
            f"{_ROBOT}: {names} opens the gripper where it should be closed. Set fingers_closed="
            f"{tuple(round(end, 6) for end, _ in right)} and fingers_open={tuple(round(end, 6) for _, end in right)}."
        )


def _check_axes(arm: ArmCfg, name: str, place: torch.Tensor) -> None:
    """Refuse a hand with other axes than a gripper's; :func:`_finger_places` returns ``place``."""
    _, at_closed, at_opened = place
    moved = (at_opened - at_closed).abs()
    wanted = "expected a body with fingers that close along its y axis and a z axis that points out of the gripper."
    if moved[0] > moved[1] + _CLEARLY:
        raise ConfigError(f"{_ROBOT}.hand={arm.hand}: {name} moves its finger along that body's x axis; {wanted}")
    if max(at_closed[2], at_opened[2]) < -_CLEARLY:
        raise ConfigError(f"{_ROBOT}.hand={arm.hand}: the finger of {name} is behind that body; {wanted}")


def _finger_places(arm: ArmCfg, robot: Any, joint: int, moves: Sequence[float]) -> tuple[torch.Tensor, bool]:
    """Return the mean place of what a joint carries in the hand, (M, 3) [m], after M moves, and whether it turns."""
    data = robot.data
    # Without the fixed base, which the Jacobian has no row for.
    velocity = data.body_link_jacobian_w.torch[0, :, :, joint].double()
    carried = velocity.abs().amax(dim=1) > _MOVES
    linear, angular = velocity[carried].split(3, dim=1)
    link = data.body_link_pos_w.torch[0, 1:][carried].double()
    centre = data.body_com_pos_w.torch[0, 1:][carried].double()
    hand = robot.body_names.index(arm.hand)
    hand_pos = data.body_link_pos_w.torch[0, hand].double()
    hand_quat = data.body_link_quat_w.torch[0, hand].double()

    turns = bool(torch.linalg.vector_norm(angular) > _MOVES)
    places = []
    for move in moves:
        if turns:
            axis = link + torch.linalg.cross(angular, linear) / angular.square().sum(dim=1, keepdim=True)
            angle = torch.full_like(angular[:, 0], move)
            moved = axis + quat_apply(quat_from_angle_axis(angle, angular), centre - axis)
        else:
            moved = centre + linear * move
        places.append(quat_apply_inverse(hand_quat.expand(len(moved), 4), moved - hand_pos).mean(dim=0))
    return torch.stack(places), turns
