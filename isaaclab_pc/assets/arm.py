# SPDX-License-Identifier: BSD-3-Clause
"""What environments need to know of an arm with a parallel gripper, and what all arms made of primitives share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING
from pathlib import Path

import isaaclab.sim as sim_utils
from isaaclab.actuators import ImplicitActuatorCfg
from isaaclab.assets import ArticulationCfg
from isaaclab.utils import configclass
from isaaclab_newton.sim.schemas import MujocoRigidBodyCfg
from isaaclab_physx.sim.schemas import PhysxRigidBodyCfg

from isaaclab_pc.assets.kinematics import Joint
from isaaclab_pc.assets.physics_properties import MAX_DEPENETRATION_VELOCITY, articulation_properties
from isaaclab_pc.assets.primitives import Arm

__all__ = ["ARMATURE", "ArmCfg", "drives", "primitives_spawn"]

ARMATURE = 0.1
"""Inertia of the motors as the turning joints feel it [kg*m^2]: the value of MuJoCo Menagerie's Panda and UR5e."""


@configclass
class ArmCfg(ArticulationCfg):
    """An arm with a fixed base and a parallel gripper, and the names of its parts.

    The hand's z axis points out of the gripper and its y axis is the one that the fingers close along.
    """

    arm_joints: tuple[str, ...] = MISSING  # pyright: ignore[reportAssignmentType]
    """Names of the arm's joints; their number is the size of joint actions."""

    hand: str = MISSING  # pyright: ignore[reportAssignmentType]
    """Name of the body that carries the fingers."""

    finger_joints: tuple[str, ...] = MISSING  # pyright: ignore[reportAssignmentType]
    """Names of the joints that move the fingers, each by itself: an object between them stops each at half of its
    width."""

    fingers_closed: tuple[float, ...] | None = None
    """Position of each finger joint where the gripper is closed [rad or m]; None: its lower limit."""

    fingers_open: tuple[float, ...] | None = None
    """Position of each finger joint where the gripper is open [rad or m]; None: its upper limit."""

    finger_travel: float | None = None
    """How far a fingertip moves from closed to open [m], where the finger joints turn; None: they slide, by as much as
    their positions say."""

    tcp_offset: float = MISSING  # pyright: ignore[reportAssignmentType]
    """Distance of the tool centre point from the hand's frame along its z axis [m]."""


def primitives_spawn(usd: Path) -> sim_utils.UsdFileCfg:
    """Return how an arm made of primitives is spawned on every physics backend; its semantic class is ``robot``.

    The robot feels no gravity, as Isaac Lab's high-gain Franka: PhysX has a flag for it, Newton compensates it.

    Args:
        usd: File that :func:`.author.author_arm` wrote.
    """
    return sim_utils.UsdFileCfg(
        usd_path=str(usd),
        rigid_props=[
            PhysxRigidBodyCfg(disable_gravity=True, max_depenetration_velocity=MAX_DEPENETRATION_VELOCITY),
            MujocoRigidBodyCfg(gravcomp=1.0),
        ],
        articulation_props=articulation_properties(),
        semantic_tags=[("class", "robot")],
    )


def drives(arm: Arm, joints: Sequence[Joint]) -> ImplicitActuatorCfg:
    """Return position drives with the joints' own gains and limits of speed and effort.

    Args:
        arm: The arm.
        joints: Those of its joints that turn, or those that slide.
    """
    return ImplicitActuatorCfg(
        joint_names_expr=[joint.name for joint in joints],
        joint_effort_limit={joint.name: joint.effort for joint in joints},
        joint_velocity_limit={joint.name: joint.velocity for joint in joints},
        stiffness={joint.name: arm.gains(joint)[0] for joint in joints},
        damping={joint.name: arm.gains(joint)[1] for joint in joints},
        # The fingers' armature differs between solvers and is in the USD file.
        armature={joint.name: ARMATURE for joint in joints if not joint.prismatic} or None,
    )
