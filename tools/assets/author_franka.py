# SPDX-License-Identifier: BSD-3-Clause
"""Write the USD file of the Franka Emika Panda: ``python -m tools.assets.author_franka``.

Joint frames and limits are those of the manufacturer's URDF (``franka_description``, Apache-2.0, and
https://frankaemika.github.io/docs/control_parameters.html).
"""

from __future__ import annotations

import math

from isaaclab_pc.assets.franka import FRANKA_PANDA_PRIMITIVE_CFG, FRANKA_USD
from tools.assets.kinematics import Joint, Vector
from tools.assets.primitives import DARK, Arm, Inertial, Shape

_QUARTER = math.pi / 2
_Z = (0.0, 0.0, 1.0)


def _arm_joint(
    index: int, xyz: Vector, roll: float, lower: float, upper: float, velocity: float, effort: float
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


_JOINTS: tuple[Joint, ...] = (
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

_INERTIALS: dict[str, Inertial] = {
    "panda_link0": Inertial(
        0.629769, (-0.041018, -0.00014, 0.049974), (0.00315, 0.00388, 0.004285, 8.2904e-7, 0.00015, 8.2299e-6)
    ),
    "panda_link1": Inertial(
        4.970684, (0.003875, 0.002081, -0.04762), (0.70337, 0.70661, 0.009117, -0.000139, 0.006772, 0.019169)
    ),
    "panda_link2": Inertial(
        0.646926, (-0.003141, -0.02872, 0.003495), (0.007962, 0.02811, 0.025995, -0.003925, 0.010254, 0.000704)
    ),
    "panda_link3": Inertial(
        3.228604, (0.027518, 0.039252, -0.066502), (0.037242, 0.036155, 0.01083, -0.004761, -0.011396, -0.012805)
    ),
    "panda_link4": Inertial(
        3.587895, (-0.05317, 0.104419, 0.027454), (0.025853, 0.019552, 0.028323, 0.007796, -0.001332, 0.008641)
    ),
    "panda_link5": Inertial(
        1.225946, (-0.011953, 0.041065, -0.038437), (0.035549, 0.029474, 0.008627, -0.002117, -0.004037, 0.000229)
    ),
    "panda_link6": Inertial(
        1.666555, (0.060149, -0.014117, -0.010517), (0.001964, 0.004354, 0.005433, 0.000109, -0.001158, 0.000341)
    ),
    "panda_link7": Inertial(
        0.735522, (0.010517, -0.004252, 0.061597), (0.012516, 0.010027, 0.004815, -0.000428, -0.001196, -0.000741)
    ),
    # The flange has no mass of its own in the sources (it is part of link 7); a body needs one.
    "panda_link8": Inertial(0.01, (0.0, 0.0, -0.005), (4e-6, 4e-6, 8e-6, 0.0, 0.0, 0.0)),
    "panda_hand": Inertial(0.73, (-0.01, 0.0, 0.03), (0.001, 0.0025, 0.0017, 0.0, 0.0, 0.0)),
    "panda_leftfinger": Inertial(0.015, (0.0, 0.0, 0.025), (2.375e-6, 2.375e-6, 7.5e-7, 0.0, 0.0, 0.0)),
    "panda_rightfinger": Inertial(0.015, (0.0, 0.0, 0.025), (2.375e-6, 2.375e-6, 7.5e-7, 0.0, 0.0, 0.0)),
}
"""Masses and inertias by link: the arm as identified by Gaz et al., "Dynamic Identification of the Franka Emika
Panda Robot With Retrieval of Feasible Parameters Using Penalty-Based Optimization", RA-L 2019, in the form
``franka_ros`` publishes; hand and fingers from ``franka_description``."""


def _finger(side: float) -> tuple[Shape, ...]:
    """Body and pad of a finger; ``side`` is +1 where the pad faces -y (left) and -1 where it faces +y."""
    return (
        Shape("box", (0.0, side * 0.0155, 0.020), (0.020, 0.015, 0.034), DARK),
        Shape("box", (0.0, side * 0.0075, 0.0445), (0.021, 0.015, 0.019), DARK),
    )


_SHAPES: dict[str, tuple[Shape, ...]] = {
    # Links 0 and 1 are kept off the mounting surface so that they touch nothing.
    "panda_link0": (Shape("capsule_x", (-0.075, 0.0, 0.06), (0.055, 0.03)),),
    "panda_link1": (Shape("capsule_z", (0.0, 0.0, -0.155), (0.06, 0.21)),),
    "panda_link2": (Shape("capsule_z", (0.0, 0.0, 0.0), (0.06, 0.12)),),
    "panda_link3": (Shape("capsule_z", (0.0, 0.0, -0.145), (0.06, 0.15)),),
    "panda_link4": (Shape("capsule_z", (0.0, 0.0, 0.0), (0.06, 0.12)),),
    "panda_link5": (
        Shape("capsule_z", (0.0, 0.0, -0.26), (0.06, 0.10)),
        Shape("capsule_z", (0.0, 0.08, -0.13), (0.025, 0.14)),
    ),
    "panda_link6": (Shape("capsule_z", (0.0, 0.0, -0.03), (0.05, 0.08)),),
    "panda_link7": (
        Shape("capsule_z", (0.0, 0.0, 0.01), (0.04, 0.14)),
        Shape("capsule_x", (0.06, 0.0, 0.082), (0.03, 0.01)),
    ),
    "panda_link8": (),
    "panda_hand": (Shape("box", (0.0, 0.0, 0.03), (0.06, 0.20, 0.06)),),
    "panda_leftfinger": _finger(1.0),
    "panda_rightfinger": _finger(-1.0),
}
"""Shapes by link: the arm's are the coarse collision capsules of ``franka_description``."""

FRANKA = Arm(
    name="panda",
    joints=_JOINTS,
    inertials=_INERTIALS,
    shapes=_SHAPES,
    cfg=FRANKA_PANDA_PRIMITIVE_CFG,
)
"""The arm and its gripper."""


if __name__ == "__main__":
    from tools.assets.author import author_arm

    author_arm(FRANKA_USD, FRANKA)
    print(FRANKA_USD)
