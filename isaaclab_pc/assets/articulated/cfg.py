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

from isaaclab_pc.assets.articulated.cabinets import CABINETS, Cabinet
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


@configclass
class ResizedUsdCfg(sim_utils.UsdFileCfg):
    """Spawns an articulation of a file in another size."""

    func: str = "{DIR}.spawner:spawn_resized"

    size: Cabinet | Valve | None = None
    """Sizes of its shapes and its drawer's travel; None: those of the file."""


def _articulated_cfg(
    usd: Path, sizes: Sequence[Cabinet | Valve], x: float, *, joint_friction: float, damping: float
) -> ArticulationCfg:
    """Return an articulation that stands ``x`` [m] in front of the robot; ``sizes`` are dealt out evenly."""
    spawn = ResizedUsdCfg(
        usd_path=str(usd),
        rigid_props=[PhysxRigidBodyCfg(max_depenetration_velocity=MAX_DEPENETRATION_VELOCITY)],
        articulation_props=articulation_properties(),
        collision_props=[UsdPhysicsCollisionCfg(), firm_contacts()],
        physics_material=friction(1.0),
    )
    assets: list[sim_utils.SpawnerCfg] = [replace(spawn, size=size) for size in sizes]
    passive = ImplicitActuatorCfg(
        joint_names_expr=[".*"],
        stiffness=0.0,
        damping=damping,
        # PhysX asks for both; Newton has one.
        friction=joint_friction,
        dynamic_friction=joint_friction,
    )
    return ArticulationCfg(
        prim_path=f"{{ENV_REGEX_NS}}/{usd.stem.capitalize()}",
        spawn=spawn if len(sizes) == 1 else sim_utils.MultiAssetSpawnerCfg(assets_cfg=assets, random_choice=False),
        init_state=ArticulationCfg.InitialStateCfg(pos=(x, 0.0, 0.0), joint_pos={".*": 0.0}),
        actuators={"passive": passive},
        soft_joint_pos_limit_factor=1.0,
    )


def cabinet_cfg(cabinets: str = "one") -> ArticulationCfg:
    """Return a cabinet with one drawer, which opens towards -x; semantic classes ``cabinet``, ``drawer``, ``handle``.

    Friction of 1 N and damping of 10 N*s/m hold the drawer where it is left. ``cabinets`` names a set of
    :data:`.cabinets.CABINETS`.
    """
    return _articulated_cfg(CABINET_USD, CABINETS[cabinets], 0.66, joint_friction=1.0, damping=10.0)


def valve_cfg(valves: str = "one") -> ArticulationCfg:
    """Return a valve with a vertical axis and an upright knob; semantic classes ``stand``, ``valve``, ``handle``.

    Friction of 0.05 N*m and damping of 0.05 N*m*s/rad hold it where it is left. ``valves`` names a set of
    :data:`.valves.VALVES`.
    """
    return _articulated_cfg(VALVE_USD, VALVES[valves], 0.51, joint_friction=0.05, damping=0.05)
