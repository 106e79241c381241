# SPDX-License-Identifier: BSD-3-Clause
"""Configuration of an arm with a parallel gripper, and drives and spawning that all arms of primitives share."""

from collections.abc import Mapping
from dataclasses import MISSING
from pathlib import Path
from typing import Any

import isaaclab.sim as sim_utils
import yaml
from isaaclab.actuators import ImplicitActuatorCfg
from isaaclab.assets import ArticulationCfg
from isaaclab.utils import configclass
from isaaclab_newton.sim.schemas import MujocoRigidBodyCfg
from isaaclab_physx.sim.schemas import PhysxRigidBodyCfg

from isaaclab_pc.assets.physics_properties import MAX_DEPENETRATION_VELOCITY, articulation_properties
from isaaclab_pc.assets.robots import ROBOT_FILE
from isaaclab_pc.errors import ConfigError, describe_error

ARMATURE = 0.1
"""Inertia of the motors as the turning joints feel it [kg*m^2]: the value of MuJoCo Menagerie's Panda and UR5e."""

ARM_GAINS = (1000.0, 100.0)
"""Stiffness and damping of the strongest turning joints' drives [N*m/rad, N*m*s/rad]: those of ManiSkill's Panda."""

FINGER_GAINS = (400.0, 20.0)
"""Stiffness and damping of the fingers' drives [N/m, N*s/m]. With more damping grasps slip on Newton. Their armature
differs between solvers and is in the USD file."""

Limits = Mapping[str, tuple[float, float]]
"""Largest effort [N*m or N] and speed [rad/s or m/s] of a joint's drive, by the joint's name."""


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
    """Return how to spawn an arm of primitives from a file of ``tools/assets``; its semantic class is ``robot``.

    The robot feels no gravity, as Isaac Lab's high-gain Franka: PhysX has a flag for it, Newton compensates it.
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


def position_drives(limits: Limits, gains: tuple[float, float], armature: float | None = None) -> ImplicitActuatorCfg:
    """Return position drives with these gains, stiffness and damping, of the strongest joint.

    Gains are in proportion to a joint's effort limit, so that all come to their limits at the same error. MuJoCo's
    ``implicitfast`` adds the time step times the damping to a joint's inertia even while the limit holds the drive
    back: with the gains of the shoulder, the Panda's wrist took 7 control steps to turn around, not 2, and the arm
    swung. Without ``armature``, that of the USD file stays.
    """
    stiffness, damping = gains
    strongest = max(effort for effort, _ in limits.values())
    shares = {name: effort / strongest for name, (effort, _) in limits.items()}
    return ImplicitActuatorCfg(
        joint_names_expr=list(limits),
        joint_effort_limit={name: effort for name, (effort, _) in limits.items()},
        joint_velocity_limit={name: speed for name, (_, speed) in limits.items()},
        stiffness={name: share * stiffness for name, share in shares.items()},
        damping={name: share * damping for name, share in shares.items()},
        armature=armature,
    )


def imported_cfg(folder: Path) -> ArmCfg:
    """Return the configuration of an imported robot, without its prim path.

    Raises:
        ConfigError: Its file cannot be read, or lacks a field.
    """
    file = folder / ROBOT_FILE
    try:
        robot: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
        joints = robot["arm_joints"] | robot["finger_joints"]
        limits = {name: (float(one["effort"]), float(one["velocity"])) for name, one in joints.items()}
        arm, fingers = ({name: limits[name] for name in robot[part]} for part in ("arm_joints", "finger_joints"))
        return ArmCfg(
            spawn=primitives_spawn((folder / robot["usd"]).resolve()),
            init_state=ArmCfg.InitialStateCfg(joint_pos={name: float(one["home"]) for name, one in joints.items()}),
            actuators={
                "arm": position_drives(arm, robot.get("arm_gains", ARM_GAINS), ARMATURE),
                "hand": position_drives(fingers, robot.get("finger_gains", FINGER_GAINS)),
            },
            soft_joint_pos_limit_factor=1.0,
            arm_joints=tuple(arm),
            hand=robot["hand"],
            finger_joints=tuple(fingers),
            tcp_offset=float(robot["tcp_offset"]),
        )
    except (OSError, AttributeError, KeyError, TypeError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"{file} cannot be used, {describe_error(error)}: mend it, or import anew.") from None
