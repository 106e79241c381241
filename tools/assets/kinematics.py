# SPDX-License-Identifier: BSD-3-Clause
"""Joints of an arm and its analytic forward kinematics, NumPy only.

The robots' USD files are written from tables of joints; the tests compare the simulated hand with
:func:`forward_kinematics`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Vector = tuple[float, float, float]
"""x, y and z."""


@dataclass(frozen=True)
class Joint:
    """One joint of the robot and the frame of its child link."""

    name: str
    """Joint name."""

    parent: str
    """Name of the link the joint hangs on."""

    child: str
    """Name of the link the joint moves."""

    xyz: Vector = (0.0, 0.0, 0.0)
    """Position of the child frame in the parent frame at joint position 0 [m]."""

    rpy: Vector = (0.0, 0.0, 0.0)
    """Orientation of the child frame in the parent frame at joint position 0: fixed-axis roll, pitch, yaw [rad]."""

    axis: Vector | None = None
    """Unit axis of motion in the child frame; ``None`` for a fixed joint."""

    prismatic: bool = False
    """Whether the joint slides (limits in m, m/s and N) instead of turning (rad, rad/s and N*m)."""

    lower: float = 0.0
    """Lower position limit [rad or m]."""

    upper: float = 0.0
    """Upper position limit [rad or m]."""

    velocity: float = 0.0
    """Speed limit [rad/s or m/s]."""

    effort: float = 0.0
    """Effort limit [N*m or N]."""


def rotation(rpy: Vector) -> NDArray[np.float64]:
    """Return the rotation matrix ``Rz(yaw) @ Ry(pitch) @ Rx(roll)``, shape (3, 3), of angles about fixed axes [rad]."""
    roll, pitch, yaw = rpy
    return axis_rotation((0, 0, 1), yaw) @ axis_rotation((0, 1, 0), pitch) @ axis_rotation((1, 0, 0), roll)


def axis_rotation(axis: ArrayLike, angle: float) -> NDArray[np.float64]:
    """Return the rotation matrix, shape (3, 3), of a turn [rad] about a unit axis (Rodrigues' formula)."""
    x, y, z = np.asarray(axis, dtype=np.float64)
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3) + np.sin(angle) * cross + (1.0 - np.cos(angle)) * (cross @ cross)


def forward_kinematics(joint_pos: Mapping[str, float], joints: Sequence[Joint]) -> dict[str, NDArray[np.float64]]:
    """Return the pose of every link in the robot's base frame.

    Args:
        joint_pos: Joint positions by joint name [rad or m]; a joint that is not named is at 0.
        joints: All joints of the robot, parents before children.

    Returns:
        Homogeneous transforms by link name, each of shape (4, 4), translations in m.

    Raises:
        KeyError: If a name is not a movable joint of the robot.
    """
    unknown = joint_pos.keys() - {joint.name for joint in joints if joint.axis is not None}
    if unknown:
        raise KeyError(f"not movable joints of the robot: {sorted(unknown)}")

    poses = {joints[0].parent: np.eye(4)}
    for joint in joints:
        origin = np.eye(4)
        origin[:3, :3] = rotation(joint.rpy)
        origin[:3, 3] = joint.xyz

        motion = np.eye(4)
        if joint.axis is not None and joint.prismatic:
            motion[:3, 3] = np.multiply(joint.axis, joint_pos.get(joint.name, 0.0))
        elif joint.axis is not None:
            motion[:3, :3] = axis_rotation(joint.axis, joint_pos.get(joint.name, 0.0))

        poses[joint.child] = poses[joint.parent] @ origin @ motion
    return poses
