# SPDX-License-Identifier: BSD-3-Clause
"""Spawns an articulation of a USD file in other sizes; its configuration is in :mod:`.cfg`. Loads USD's modules."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import isaaclab.sim as sim_utils
from pxr import Gf, UsdGeom

from isaaclab_pc.assets.articulated import Shape
from isaaclab_pc.assets.articulated.cabinets import Cabinet

if TYPE_CHECKING:
    from isaaclab_pc.assets.articulated.cfg import ResizedUsdCfg


@sim_utils.clone
def spawn_resized(prim_path: str, cfg: ResizedUsdCfg, *pose: Any, **kwargs: Any) -> Any:
    """Spawn the file, and give its shapes and its drawer's limit the sizes of ``cfg``; arguments as for USD files."""
    root: Any = sim_utils.spawn_from_usd(prim_path, cfg, *pose, **kwargs)
    if cfg.size is None:
        return root
    for path, shapes in cfg.size.shapes().items():
        for index, shape in enumerate(shapes):
            resize(root.GetPrimAtPath(f"{path}/shape_{index}"), shape)
    if isinstance(cfg.size, Cabinet):
        root.GetPrimAtPath("joints/drawer_joint").GetAttribute("physics:upperLimit").Set(cfg.size.travel)
    return root


def resize(prim: Any, shape: Shape) -> None:
    """Give a prim, a cube or a capsule, the place and the size of a shape."""
    # USD's type stubs say that every call returns None.
    placed: Any = UsdGeom.Xformable(prim)
    placed.ClearXformOpOrder()
    placed.AddTranslateOp().Set(Gf.Vec3d(*shape.center))
    if shape.kind == "box":
        if shape.yaw:
            placed.AddOrientOp().Set(Gf.Quatf(math.cos(shape.yaw / 2.0), 0.0, 0.0, math.sin(shape.yaw / 2.0)))
        placed.AddScaleOp().Set(Gf.Vec3f(*shape.size))
        return
    radius, length = shape.size
    reach = Gf.Vec3f(*(radius + (length / 2.0 if axis == shape.kind[-1] else 0.0) for axis in "xyz"))
    capsule: Any = UsdGeom.Capsule(prim)
    capsule.GetRadiusAttr().Set(radius)
    capsule.GetHeightAttr().Set(length)
    capsule.GetExtentAttr().Set([-reach, reach])
