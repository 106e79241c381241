# SPDX-License-Identifier: BSD-3-Clause
"""Creates a box with a hole in USD; its configuration is in :mod:`.peg`. Loads USD's modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import isaaclab.sim as sim_utils
from isaaclab.sim import schemas
from isaaclab.sim.schemas import UsdPhysicsCollisionCfg
from isaaclab.sim.spawners.shapes import spawn_cuboid

from isaaclab_pc.assets.kinematics import Vector
from isaaclab_pc.assets.physics_properties import friction, kinematic_body_properties

if TYPE_CHECKING:
    from pxr import Usd

    from isaaclab_pc.assets.peg import BoxWithHoleCfg

__all__ = ["spawn_box_with_hole"]


@sim_utils.clone
def spawn_box_with_hole(
    prim_path: str,
    cfg: BoxWithHoleCfg,
    translation: Vector | None = None,
    orientation: tuple[float, float, float, float] | None = None,
    **_: object,
) -> Usd.Prim:
    """Create the body and its four walls.

    Args:
        prim_path: Where to create the body.
        cfg: Its sizes and looks.
        translation: Position in the parent's frame [m].
        orientation: Orientation in the parent's frame, (x, y, z, w).

    Returns:
        The body's prim.
    """
    body = sim_utils.create_prim(prim_path, "Xform", translation=translation, orientation=orientation)
    for index, (center, size) in enumerate(cfg.size.walls()):
        wall = sim_utils.CuboidCfg(
            size=size,
            collision_props=UsdPhysicsCollisionCfg(),
            physics_material=friction(cfg.friction),
            visual_material=sim_utils.PreviewSurfaceCfg(diffuse_color=cfg.color),
        )
        spawn_cuboid(f"{prim_path}/wall_{index}", wall, translation=center)
    schemas.apply_rigid_body_properties(prim_path, kinematic_body_properties(), create_if_missing=True)
    return body
