# SPDX-License-Identifier: BSD-3-Clause
"""Write the USD file of a UR5e with a parallel gripper: ``python -m tools.assets.author_ur5e``.

The arm has the manufacturer's Denavit-Hartenberg parameters, masses, centres of mass and inertias
(https://www.universal-robots.com/articles/ur/application-installation/dh-parameters-for-calculations-of-kinematics-and-dynamics/);
limits, and the inertias that the page leaves out, are those of ``ur_description`` (BSD-3-Clause,
https://github.com/UniversalRobots/Universal_Robots_ROS2_Description). Names of links and joints are its names.

The gripper has the stroke (85 mm), mass (0.9 kg), full speed (150 mm/s) and least force (20 N) of a Robotiq 2F-85
(instruction manual of the 2F-85 and 2F-140, section 6.1) and about its length, and its linkage is left out: two fingers
slide straight, each with a drive of its own, as those of the Panda's hand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from isaaclab_pc.assets.ur5e import UR5E_GRIPPER_CFG, UR5E_USD
from tools.assets.kinematics import Joint, Vector, rotation
from tools.assets.primitives import DARK, Arm, Inertial, Shape

_QUARTER = math.pi / 2
_BLUE = (0.45, 0.62, 0.75)


@dataclass(frozen=True, kw_only=True)
class DHLink:
    """One row of the manufacturer's tables: the transform ``Rz(theta) Tz(d) Tx(a) Rx(alpha)`` and the moved link."""

    joint: str
    """Name of the joint that turns by theta."""

    link: str
    """Name of the link."""

    a: float = 0.0
    """Length of the link [m]."""

    d: float = 0.0
    """Offset along the joint's axis [m]."""

    alpha: float = 0.0
    """Twist of the link [rad]."""

    mass: float
    """Mass [kg]."""

    com: Vector
    """Centre of mass in the frame after the transform [m]."""

    inertia: tuple[float, float, float, float, float, float]
    """Inertia about the centre of mass in that frame: xx, yy, zz, xy, xz, yz [kg*m^2]."""

    limit: float = 2.0 * math.pi
    """Largest joint position to either side [rad]."""

    effort: float
    """Largest torque of the joint [N*m]."""


UR5E_DH: tuple[DHLink, ...] = (
    DHLink(
        joint="shoulder_pan_joint",
        link="shoulder_link",
        d=0.1625,
        alpha=_QUARTER,
        mass=3.761,
        com=(0.0, -0.02561, 0.00193),
        inertia=(0.00700210, 0.00648091, 0.00657286, 0.00000073, -0.00001053, 0.00049994),
        effort=150.0,
    ),
    DHLink(
        joint="shoulder_lift_joint",
        link="upper_arm_link",
        a=-0.425,
        mass=8.058,
        com=(0.2125, 0.0, 0.11336),
        inertia=(0.01505885, 0.33388086, 0.33247207, -0.00005400, 0.00000563, -0.00000181),
        effort=150.0,
    ),
    DHLink(
        joint="elbow_joint",
        link="forearm_link",
        a=-0.3922,
        mass=2.846,
        com=(0.15, 0.0, 0.0265),
        inertia=(0.00399632, 0.07879254, 0.07848510, -0.00001365, 0.00137272, -0.00000660),
        # The shoulder is in the way of more, says ur_description.
        limit=math.pi,
        effort=150.0,
    ),
    DHLink(
        joint="wrist_1_joint",
        link="wrist_1_link",
        d=0.1333,
        alpha=_QUARTER,
        mass=1.37,
        com=(0.0, -0.0018, 0.01634),
        inertia=(0.00165491, 0.00135962, 0.00126279, -0.00000282, -0.00000438, 0.00010157),
        effort=28.0,
    ),
    DHLink(
        joint="wrist_2_joint",
        link="wrist_2_link",
        d=0.0997,
        alpha=-_QUARTER,
        mass=1.3,
        com=(0.0, 0.0018, 0.01634),
        inertia=(0.00135617, 0.00127827, 0.00096614, -0.00000274, 0.00000444, -0.00005048),
        effort=28.0,
    ),
    DHLink(
        joint="wrist_3_joint",
        link="wrist_3_link",
        d=0.0996,
        mass=0.365,
        com=(0.0, 0.0, -0.001159),
        inertia=(0.00018694, 0.00018908, 0.00025756, 0.00000006, -0.00000017, -0.00000092),
        effort=28.0,
    ),
)
"""The arm, base to flange."""


def _arm_joints() -> tuple[Joint, ...]:
    """Return the arm's joints.

    A frame here is where its joint is: behind the joint's offset, before the link's length and twist. The frames of the
    tables are at the links' far ends.
    """
    joints = []
    parent = "base_link"
    a = 0.0
    alpha = 0.0
    for row in UR5E_DH:
        # Every twist is a quarter turn or none: rounding turns the cosine's 1e-17 into the zero that it stands for.
        offset = np.round([a, -math.sin(alpha) * row.d, math.cos(alpha) * row.d], 9) + 0.0
        joints.append(
            Joint(
                row.joint,
                parent,
                row.link,
                xyz=tuple(offset.tolist()),
                # The base link's x axis points forward, where ROS has it: against that of the DH base.
                rpy=(alpha, 0.0, 0.0 if joints else math.pi),
                axis=(0.0, 0.0, 1.0),
                lower=-row.limit,
                upper=row.limit,
                velocity=math.pi,
                effort=row.effort,
            )
        )
        parent = row.link
        a = row.a
        alpha = row.alpha
    return tuple(joints)


def _arm_inertial(row: DHLink) -> Inertial:
    """Return mass properties in the link's frame, which is before the length and the twist of the link."""
    turn = rotation((row.alpha, 0.0, 0.0))
    xx, yy, zz, xy, xz, yz = row.inertia
    tensor = turn @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ turn.T
    com = np.round(turn @ row.com + [row.a, 0.0, 0.0], 9) + 0.0
    moments = tensor[(0, 1, 2, 0, 0, 1), (0, 1, 2, 1, 2, 2)]
    return Inertial(row.mass, tuple(com.tolist()), tuple(moments.tolist()))


def _box_inertial(mass: float, center: Vector, size: Vector) -> Inertial:
    """Return the mass properties of a box of even density."""
    x, y, z = (mass / 12.0 * edge**2 for edge in size)
    return Inertial(mass, center, (y + z, x + z, x + y, 0.0, 0.0, 0.0))


def _finger_joint(side: str, direction: float) -> Joint:
    return Joint(
        name=f"{side}_finger_joint",
        parent="hand",
        child=f"{side}_finger",
        xyz=(0.0, 0.0, 0.095),
        axis=(0.0, direction, 0.0),
        prismatic=True,
        lower=0.0,
        # Each finger has half of the stroke of 85 mm and of the speed of 150 mm/s.
        upper=0.0425,
        velocity=0.075,
        # The least force that can be set.
        effort=20.0,
    )


def _finger(side: float) -> tuple[Shape, ...]:
    """Body and pad of a finger; ``side`` is +1 where the pad faces -y (left) and -1 where it faces +y."""
    return (
        Shape("box", (0.0, side * 0.014, 0.022), (0.022, 0.014, 0.040), DARK),
        Shape("box", (0.0, side * 0.006, 0.057), (0.022, 0.012, 0.022), DARK),
    )


_HAND = Shape("box", (0.0, 0.0, 0.05), (0.075, 0.13, 0.09), DARK)
_BASE = Shape("box", (0.0, 0.0, 0.05), (0.14, 0.14, 0.08))
_FINGER_SOLID = ((0.0, 0.0, 0.035), (0.022, 0.012, 0.066))

UR5E = Arm(
    name="ur5e",
    joints=(
        *_arm_joints(),
        Joint("hand_joint", "wrist_3_link", "hand"),
        _finger_joint("left", 1.0),
        _finger_joint("right", -1.0),
    ),
    inertials={
        # ur_description calls its mass of the base a guess; the base never moves.
        "base_link": _box_inertial(4.0, _BASE.center, (0.14, 0.14, 0.08)),
        **{row.link: _arm_inertial(row) for row in UR5E_DH},
        # 0.9 kg in all.
        "hand": _box_inertial(0.8, _HAND.center, (0.075, 0.13, 0.09)),
        "left_finger": _box_inertial(0.05, *_FINGER_SOLID),
        "right_finger": _box_inertial(0.05, *_FINGER_SOLID),
    },
    # The arm's capsules follow the collision shapes of MuJoCo Menagerie's UR5e (BSD-3-Clause), but none touches the
    # mounting surface.
    shapes={
        "base_link": (_BASE,),
        "shoulder_link": (Shape("capsule_z", (0.0, 0.0, -0.03), (0.06, 0.10), _BLUE),),
        "upper_arm_link": (
            Shape("capsule_z", (0.0, 0.0, 0.098), (0.06, 0.12), _BLUE),
            Shape("capsule_x", (-0.2, 0.0, 0.138), (0.05, 0.40)),
        ),
        "forearm_link": (
            Shape("capsule_z", (0.0, 0.0, 0.087), (0.055, 0.12), _BLUE),
            Shape("capsule_x", (-0.2, 0.0, 0.007), (0.038, 0.38)),
        ),
        "wrist_1_link": (Shape("capsule_z", (0.0, 0.0, -0.0763), (0.04, 0.14), _BLUE),),
        "wrist_2_link": (
            Shape("capsule_z", (0.0, 0.0, -0.06), (0.04, 0.12), _BLUE),
            Shape("capsule_y", (0.0, 0.02, 0.0), (0.04, 0.08)),
        ),
        "wrist_3_link": (Shape("box", (0.0, 0.0, -0.02), (0.07, 0.07, 0.04)),),
        "hand": (_HAND,),
        "left_finger": _finger(1.0),
        "right_finger": _finger(-1.0),
    },
    cfg=UR5E_GRIPPER_CFG,
)
"""The arm and its gripper."""


if __name__ == "__main__":
    from tools.assets.author import author_arm

    author_arm(UR5E_USD, UR5E)
    print(UR5E_USD)
