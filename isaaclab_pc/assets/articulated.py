# SPDX-License-Identifier: BSD-3-Clause
"""Configurations of the cabinet with a drawer and of the valve that :mod:`.author_articulated` writes.

Both are articulations with a fixed base and one joint without a motor: friction and damping hold it where it is left.
At a reset the root's pose may be written; the base stays there.
"""

from __future__ import annotations

from pathlib import Path

import isaaclab.sim as sim_utils
from isaaclab.actuators import ImplicitActuatorCfg
from isaaclab.assets import ArticulationCfg
from isaaclab.sim.schemas import UsdPhysicsCollisionCfg
from isaaclab_physx.sim.schemas import PhysxRigidBodyCfg

from isaaclab_pc.assets.author_articulated import CABINET_USD, DRAWER_JOINT, VALVE_JOINT, VALVE_USD
from isaaclab_pc.assets.kinematics import Joint, Vector
from isaaclab_pc.assets.physics_properties import (
    MAX_DEPENETRATION_VELOCITY,
    articulation_properties,
    firm_contacts,
    friction,
)

__all__ = ["cabinet_cfg", "valve_cfg"]


def _articulated_cfg(
    prim_path: str, usd: Path, joint: Joint, pos: Vector, joint_friction: float, damping: float
) -> ArticulationCfg:
    return ArticulationCfg(
        prim_path=prim_path,
        spawn=sim_utils.UsdFileCfg(
            usd_path=str(usd),
            rigid_props=[PhysxRigidBodyCfg(max_depenetration_velocity=MAX_DEPENETRATION_VELOCITY)],
            articulation_props=articulation_properties(),
            collision_props=[UsdPhysicsCollisionCfg(), firm_contacts()],
            physics_material=friction(1.0),
        ),
        init_state=ArticulationCfg.InitialStateCfg(pos=pos, joint_pos={joint.name: 0.0}),
        actuators={
            "passive": ImplicitActuatorCfg(
                joint_names_expr=[joint.name],
                stiffness=0.0,
                damping=damping,
                # PhysX asks for both; Newton has one.
                friction=joint_friction,
                dynamic_friction=joint_friction,
                joint_effort_limit=joint.effort,
                joint_velocity_limit=joint.velocity,
            )
        },
        soft_joint_pos_limit_factor=1.0,
    )


def cabinet_cfg(
    prim_path: str = "{ENV_REGEX_NS}/Cabinet",
    *,
    pos: Vector = (0.66, 0.0, 0.0),
    joint_friction: float = 1.0,
    damping: float = 10.0,
) -> ArticulationCfg:
    """Return a cabinet with one drawer; semantic classes ``cabinet``, ``drawer`` and ``handle``.

    Args:
        prim_path: Where it is spawned.
        pos: Centre of its foot in the environment's frame [m]; the drawer opens towards -x.
        joint_friction: Force that keeps the drawer from moving, and acts against its motion [N].
        damping: Force against the drawer's motion per speed [N*s/m].
    """
    return _articulated_cfg(prim_path, CABINET_USD, DRAWER_JOINT, pos, joint_friction, damping)


def valve_cfg(
    prim_path: str = "{ENV_REGEX_NS}/Valve",
    *,
    pos: Vector = (0.51, 0.0, 0.0),
    joint_friction: float = 0.05,
    damping: float = 0.05,
) -> ArticulationCfg:
    """Return a valve with a vertical axis and an upright knob; classes ``stand``, ``valve`` and ``handle``.

    Args:
        prim_path: Where it is spawned.
        pos: Centre of its foot in the environment's frame [m].
        joint_friction: Torque that keeps the valve from turning, and acts against its motion [N*m].
        damping: Torque against the valve's motion per speed [N*m*s/rad].
    """
    return _articulated_cfg(prim_path, VALVE_USD, VALVE_JOINT, pos, joint_friction, damping)
