# SPDX-License-Identifier: BSD-3-Clause
"""Creates a box with a hole in USD; its configuration is in :mod:`.peg`. Loads USD's modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import isaaclab.sim as sim_utils
from isaaclab.sim import schemas
from isaaclab.sim.schemas import UsdPhysicsCollisionCfg
from isaaclab.sim.spawners.shapes import spawn_cuboid
from isaaclab.utils import replace
from isaaclab_physx.sim.spawners.materials import PhysxMaterialCfg
from scipy.spatial.transform import Rotation

from isaaclab_pc.assets.physics_properties import firm_contacts, friction, kinematic_body_properties
from isaaclab_pc.assets.primitives import Vector

if TYPE_CHECKING:
    from pxr import Usd

    from isaaclab_pc.assets.peg import BoxWithHoleCfg


@sim_utils.clone
def spawn_box_with_hole(
    prim_path: str,
    cfg: BoxWithHoleCfg,
    translation: Vector | None = None,
    orientation: tuple[float, float, float, float] | None = None,
    **_: object,
) -> Usd.Prim:
    """Create the body, its walls and the slopes of the mouth at a pose in the parent's frame [m]."""
    body = sim_utils.create_prim(prim_path, "Xform", translation=translation, orientation=orientation)
    upright = [(*wall, (0.0, 0.0, 0.0)) for wall in cfg.size.walls()]
    for index, (center, size, turn) in enumerate([*upright, *cfg.size.slopes()]):
        part = sim_utils.CuboidCfg(
            size=size,
            # The lesser friction of two bodies counts: here by PhysX's rule, on Newton by priority.
            collision_props=[UsdPhysicsCollisionCfg(), replace(firm_contacts(), priority=2)],
            physics_material=[friction(cfg.friction), PhysxMaterialCfg(friction_combine_mode="min")],
            visual_material=sim_utils.PreviewSurfaceCfg(diffuse_color=cfg.color),
        )
        turned = tuple(Rotation.from_rotvec(turn).as_quat().tolist())
        spawn_cuboid(f"{prim_path}/wall_{index}", part, translation=center, orientation=turned)
    schemas.apply_rigid_body_properties(prim_path, kinematic_body_properties(), create_if_missing=True)
    return body
