# SPDX-License-Identifier: BSD-3-Clause
"""Configurations of the cabinet with a drawer and of the valve that ``tools/assets/author_articulated.py`` writes.

Both are articulations with a fixed base and one joint without a motor: friction and damping hold it where it is left.
At a reset the root's pose may be written; the base stays there.
"""

from collections.abc import Sequence
from pathlib import Path

import isaaclab.sim as sim_utils
from isaaclab.actuators import ImplicitActuatorCfg
from isaaclab.assets import ArticulationCfg
from isaaclab.sim.schemas import UsdPhysicsCollisionCfg
from isaaclab.utils import configclass, replace
from isaaclab_physx.sim.schemas import PhysxRigidBodyCfg

from isaaclab_pc.assets.articulated.cabinets import CABINETS, DRAWER_JOINT, Cabinet
from isaaclab_pc.assets.articulated.shapes import Vector
from isaaclab_pc.assets.articulated.valves import VALVES, Valve
from isaaclab_pc.assets.physics_properties import (
    MAX_DEPENETRATION_VELOCITY,
    articulation_properties,
    firm_contacts,
    friction,
)

_DATA = Path(__file__).parents[1] / "data"

CABINET_USD = _DATA / "cabinet.usda"
"""File of the cabinet."""

VALVE_USD = _DATA / "valve.usda"
"""File of the valve."""

DRAWER_SPEED = 2.0
"""Limit of the drawer's speed [m/s]."""

VALVE_JOINT = "valve_joint"
"""The valve's vertical axis."""

VALVE_SPEED = 20.0
"""Limit of the valve's speed [rad/s]."""

LARGEST_EFFORT = 100.0
"""Limit of what drives of either joint may give [N or N*m]; both have none."""


@configclass
class ResizedUsdCfg(sim_utils.UsdFileCfg):
    """Spawns an articulation of a file in another size."""

    func: str = "{DIR}.spawner:spawn_resized"

    size: Cabinet | Valve | None = None
    """What its shapes and its joint's limit are to be; None: as they are in the file."""


def _articulated_cfg(
    name: str,
    usd: Path,
    sizes: Sequence[Cabinet | Valve],
    joint: str,
    speed: float,
    pos: Vector,
    *,
    joint_friction: float,
    damping: float,
) -> ArticulationCfg:
    """Return an articulation that stands with the middle of its foot at ``pos`` in the environment's frame [m].

    Several ``sizes`` are dealt out to the environments as evenly as may be.
    """
    spawn = ResizedUsdCfg(
        usd_path=str(usd),
        rigid_props=[PhysxRigidBodyCfg(max_depenetration_velocity=MAX_DEPENETRATION_VELOCITY)],
        articulation_props=articulation_properties(),
        collision_props=[UsdPhysicsCollisionCfg(), firm_contacts()],
        physics_material=friction(1.0),
    )
    assets: list[sim_utils.SpawnerCfg] = [replace(spawn, size=size) for size in sizes]
    return ArticulationCfg(
        prim_path=f"{{ENV_REGEX_NS}}/{name}",
        spawn=spawn if len(sizes) == 1 else sim_utils.MultiAssetSpawnerCfg(assets_cfg=assets),
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


def cabinet_cfg(cabinets: str = "one") -> ArticulationCfg:
    """Return a cabinet with one drawer, which opens towards -x; semantic classes ``cabinet``, ``drawer``, ``handle``.

    Friction of 1 N and damping of 10 N*s/m hold the drawer where it is left. ``cabinets`` is a set of
    :data:`.cabinets.SETS`.
    """
    sizes = CABINETS[cabinets]
    pos = (0.66, 0.0, 0.0)
    return _articulated_cfg(
        "Cabinet", CABINET_USD, sizes, DRAWER_JOINT, DRAWER_SPEED, pos, joint_friction=1.0, damping=10.0
    )


def valve_cfg(valves: str = "one") -> ArticulationCfg:
    """Return a valve with a vertical axis and an upright knob; semantic classes ``stand``, ``valve``, ``handle``.

    Friction of 0.05 N*m and damping of 0.05 N*m*s/rad hold it where it is left. ``valves`` is a set of
    :data:`.valves.SETS`.
    """
    sizes = VALVES[valves]
    pos = (0.51, 0.0, 0.0)
    return _articulated_cfg("Valve", VALVE_USD, sizes, VALVE_JOINT, VALVE_SPEED, pos, joint_friction=0.05, damping=0.05)
