# SPDX-License-Identifier: BSD-3-Clause
"""Public kinematics of the Franka Emika Panda, and the analytic forward kinematics of any arm, NumPy only.

Joint frames and limits are those of the manufacturer's URDF (``franka_description``, Apache-2.0, and
https://frankaemika.github.io/docs/control_parameters.html). :mod:`.author` writes the robot's USD from
these tables; the tests compare the simulated hand with :func:`forward_kinematics`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

TCP_OFFSET = 0.1034
"""Distance of the tool centre point from the ``panda_hand`` frame along its z axis [m]."""


@dataclass(frozen=True)
class Joint:
    """One joint of the robot and the frame of its child link."""

    name: str
    """Joint name."""

    parent: str
    """Name of the link the joint hangs on."""

    child: str
    """Name of the link the joint moves."""

    xyz: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Position of the child frame in the parent frame at joint position 0 [m]."""

    rpy: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Orientation of the child frame in the parent frame at joint position 0: fixed-axis roll, pitch, yaw [rad]."""

    axis: tuple[float, float, float] | None = None
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


_QUARTER = np.pi / 2
_Z = (0.0, 0.0, 1.0)


def _arm_joint(
    index: int, xyz: tuple[float, float, float], roll: float, lower: float, upper: float, velocity: float, effort: float
) -> Joint:
    return Joint(
        name=f"panda_joint{index}",
        parent=f"panda_link{index - 1}",
        child=f"panda_link{index}",
        xyz=xyz,
        rpy=(roll, 0.0, 0.0),
        axis=_Z,
        lower=lower,
        upper=upper,
        velocity=velocity,
        effort=effort,
    )


def _finger_joint(index: int, side: str, direction: float) -> Joint:
    return Joint(
        name=f"panda_finger_joint{index}",
        parent="panda_hand",
        child=f"panda_{side}finger",
        xyz=(0.0, 0.0, 0.0584),
        axis=(0.0, direction, 0.0),
        prismatic=True,
        lower=0.0,
        upper=0.04,
        velocity=0.2,
        effort=20.0,
    )


JOINTS: tuple[Joint, ...] = (
    _arm_joint(1, (0.0, 0.0, 0.333), 0.0, -2.8973, 2.8973, 2.175, 87.0),
    _arm_joint(2, (0.0, 0.0, 0.0), -_QUARTER, -1.7628, 1.7628, 2.175, 87.0),
    _arm_joint(3, (0.0, -0.316, 0.0), _QUARTER, -2.8973, 2.8973, 2.175, 87.0),
    _arm_joint(4, (0.0825, 0.0, 0.0), _QUARTER, -3.0718, -0.0698, 2.175, 87.0),
    _arm_joint(5, (-0.0825, 0.384, 0.0), -_QUARTER, -2.8973, 2.8973, 2.61, 12.0),
    _arm_joint(6, (0.0, 0.0, 0.0), _QUARTER, -0.0175, 3.7525, 2.61, 12.0),
    _arm_joint(7, (0.088, 0.0, 0.0), _QUARTER, -2.8973, 2.8973, 2.61, 12.0),
    Joint("panda_joint8", "panda_link7", "panda_link8", xyz=(0.0, 0.0, 0.107)),
    Joint("panda_hand_joint", "panda_link8", "panda_hand", rpy=(0.0, 0.0, -_QUARTER / 2)),
    _finger_joint(1, "left", 1.0),
    _finger_joint(2, "right", -1.0),
)
"""All joints, parents before children."""

LINKS: tuple[str, ...] = ("panda_link0", *(joint.child for joint in JOINTS))
"""All links, parents before children."""

DEFAULT_JOINT_POS: dict[str, float] = {
    "panda_joint1": 0.0,
    "panda_joint2": -0.569,
    "panda_joint3": 0.0,
    "panda_joint4": -2.810,
    "panda_joint5": 0.0,
    "panda_joint6": 3.037,
    "panda_joint7": 0.741,
    "panda_finger_joint1": 0.04,
    "panda_finger_joint2": 0.04,
}
"""Joint positions after a reset, those of Isaac Lab's own Franka [rad and m]."""


def rotation(rpy: tuple[float, float, float]) -> NDArray[np.float64]:
    """Return the rotation matrix of fixed-axis roll, pitch and yaw.

    Args:
        rpy: Roll, pitch and yaw about the fixed x, y and z axes [rad].

    Returns:
        The matrix ``Rz(yaw) @ Ry(pitch) @ Rx(roll)``, shape (3, 3).
    """
    roll, pitch, yaw = rpy
    return axis_rotation((0, 0, 1), yaw) @ axis_rotation((0, 1, 0), pitch) @ axis_rotation((1, 0, 0), roll)


def axis_rotation(axis: ArrayLike, angle: float) -> NDArray[np.float64]:
    """Return the rotation matrix of a turn about an axis (Rodrigues' formula).

    Args:
        axis: Unit axis, shape (3,).
        angle: Angle [rad].

    Returns:
        The rotation matrix, shape (3, 3).
    """
    x, y, z = np.asarray(axis, dtype=np.float64)
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3) + np.sin(angle) * cross + (1.0 - np.cos(angle)) * (cross @ cross)


def forward_kinematics(
    joint_pos: Mapping[str, float], joints: Sequence[Joint] = JOINTS
) -> dict[str, NDArray[np.float64]]:
    """Return the pose of every link in the robot's base frame.

    Args:
        joint_pos: Joint positions by joint name [rad or m]; a joint that is not named stands at 0.
        joints: All joints of the robot, parents before children; those of the Panda.

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
        origin, motion = np.eye(4), np.eye(4)
        origin[:3, :3], origin[:3, 3] = rotation(joint.rpy), joint.xyz
        if joint.axis is not None and joint.prismatic:
            motion[:3, 3] = np.multiply(joint.axis, joint_pos.get(joint.name, 0.0))
        elif joint.axis is not None:
            motion[:3, :3] = axis_rotation(joint.axis, joint_pos.get(joint.name, 0.0))
        poses[joint.child] = poses[joint.parent] @ origin @ motion
    return poses


def tool_position(joint_pos: Mapping[str, float]) -> NDArray[np.float64]:
    """Return the position of the Panda's tool centre point in its base frame.

    Args:
        joint_pos: Joint positions by joint name [rad or m], as in :func:`forward_kinematics`.

    Returns:
        The position [m], shape (3,).
    """
    hand = forward_kinematics(joint_pos)["panda_hand"]
    return hand[:3, 3] + TCP_OFFSET * hand[:3, 2]
