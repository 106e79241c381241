# SPDX-License-Identifier: BSD-3-Clause
"""Configurations of the cabinet with a drawer and of the valve that ``tools/assets/author_articulated.py`` writes.

Both are articulations with a fixed base and one joint without a motor: friction and damping hold it where it is left.
At a reset the root's pose may be written; the base stays there.
"""

from pathlib import Path

import isaaclab.sim as sim_utils
from isaaclab.actuators import ImplicitActuatorCfg
from isaaclab.assets import ArticulationCfg
from isaaclab.sim.schemas import UsdPhysicsCollisionCfg
from isaaclab_physx.sim.schemas import PhysxRigidBodyCfg

from isaaclab_pc.assets.physics_properties import (
    MAX_DEPENETRATION_VELOCITY,
    articulation_properties,
    firm_contacts,
    friction,
)
from isaaclab_pc.assets.primitives import Vector

_DATA = Path(__file__).parent / "data"

CABINET_USD = _DATA / "cabinet.usda"
"""File of the cabinet."""

VALVE_USD = _DATA / "valve.usda"
"""File of the valve."""

CABINET_SIZE: Vector = (0.20, 0.26, 0.20)
"""Depth, width and height of the cabinet without the handle [m]; the drawer's front faces -x."""

HANDLE_GAP = 0.05
"""Free space between the drawer's front and the handle's bar [m]: a closed gripper fits in at a yaw of 0.4 rad."""

BAR_RADIUS = 0.008
"""Radius of the handle's bar [m]."""

HANDLE_CENTER: Vector = (-CABINET_SIZE[0] / 2 - HANDLE_GAP - BAR_RADIUS, 0.0, CABINET_SIZE[2] - 0.025)
"""Centre of the handle's bar in the root frame, drawer closed [m].

The bar is so close to the cabinet's top that a hand which points down stays above the cabinet.
"""

DRAWER_JOINT = "drawer_joint"
"""The drawer's slide; 0 is closed."""

DRAWER_AXIS: Vector = (-1.0, 0.0, 0.0)
"""Direction in which the drawer opens, in the root frame."""

DRAWER_TRAVEL = 0.16
"""Largest position of the drawer's slide [m]."""

DRAWER_SPEED = 2.0
"""Limit of the drawer's speed [m/s]."""

KNOB_CENTER: Vector = (0.09, 0.0, 0.176)
"""Where fingers touch the upright knob, in the root frame at joint position 0 [m]: with their pads alone."""

VALVE_JOINT = "valve_joint"
"""The valve's vertical axis."""

VALVE_SPEED = 20.0
"""Limit of the valve's speed [rad/s]."""

LARGEST_EFFORT = 100.0
"""Limit of what drives of either joint may give [N or N*m]; both have none."""


def _articulated_cfg(
    name: str, usd: Path, joint: str, speed: float, pos: Vector, *, joint_friction: float, damping: float
) -> ArticulationCfg:
    """Return an articulation that stands with the middle of its foot at ``pos`` in the environment's frame [m]."""
    return ArticulationCfg(
        prim_path=f"{{ENV_REGEX_NS}}/{name}",
        spawn=sim_utils.UsdFileCfg(
            usd_path=str(usd),
            rigid_props=[PhysxRigidBodyCfg(max_depenetration_velocity=MAX_DEPENETRATION_VELOCITY)],
            articulation_props=articulation_properties(),
            collision_props=[UsdPhysicsCollisionCfg(), firm_contacts()],
            physics_material=friction(1.0),
        ),
        init_state=ArticulationCfg.InitialStateCfg(pos=pos, joint_pos={joint: 0.0}),
        actuators={
            "passive": ImplicitActuatorCfg(
                joint_names_expr=[joint],
                stiffness=0.0,
                damping=damping,
                # PhysX asks for both; Newton has one.
                friction=joint_friction,
                dynamic_friction=joint_friction,
                joint_effort_limit=LARGEST_EFFORT,
                joint_velocity_limit=speed,
            )
        },
        soft_joint_pos_limit_factor=1.0,
    )


def cabinet_cfg() -> ArticulationCfg:
    """Return a cabinet with one drawer, which opens towards -x; semantic classes ``cabinet``, ``drawer``, ``handle``.

    Friction of 1 N and damping of 10 N*s/m hold the drawer where it is left.
    """
    pos = (0.66, 0.0, 0.0)
    return _articulated_cfg("Cabinet", CABINET_USD, DRAWER_JOINT, DRAWER_SPEED, pos, joint_friction=1.0, damping=10.0)


def valve_cfg() -> ArticulationCfg:
    """Return a valve with a vertical axis and an upright knob; semantic classes ``stand``, ``valve``, ``handle``.

    Friction of 0.05 N*m and damping of 0.05 N*m*s/rad hold it where it is left.
    """
    pos = (0.51, 0.0, 0.0)
    return _articulated_cfg("Valve", VALVE_USD, VALVE_JOINT, VALVE_SPEED, pos, joint_friction=0.05, damping=0.05)
