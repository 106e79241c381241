# SPDX-License-Identifier: BSD-3-Clause
"""Spawns an articulation of a USD file in other sizes; its configuration is in :mod:`.cfg`. Loads USD's modules."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import isaaclab.sim as sim_utils
from pxr import Gf, UsdGeom

from isaaclab_pc.assets.articulated.shapes import Shape, Vector

if TYPE_CHECKING:
    from pxr import Usd

    from isaaclab_pc.assets.articulated.cfg import ResizedUsdCfg


@sim_utils.clone
def spawn_resized(
    prim_path: str,
    cfg: ResizedUsdCfg,
    translation: Vector | None = None,
    orientation: tuple[float, float, float, float] | None = None,
    **_: object,
) -> Usd.Prim:
    """Spawn the file, and give its shapes and joints the sizes of ``cfg``."""
    root = sim_utils.spawn_from_usd(prim_path, cfg, translation, orientation)
    if cfg.size is None:
        return root
    # USD's type stubs say that every call returns None.
    stage: Any = root.GetStage()
    for path, shapes in cfg.size.shapes().items():
        for index, shape in enumerate(shapes):
            _resize(UsdGeom.Gprim(stage.GetPrimAtPath(f"{root.GetPath()}/{path}/shape_{index}")), shape)
    for joint, limit in cfg.size.upper_limits().items():
        stage.GetPrimAtPath(f"{root.GetPath()}/joints/{joint}").GetAttribute("physics:upperLimit").Set(limit)
    return root


def _resize(prim: Any, shape: Shape) -> None:
    prim.ClearXformOpOrder()
    prim.AddTranslateOp().Set(Gf.Vec3d(*shape.center))
    if shape.kind == "box":
        half = shape.yaw / 2.0
        prim.AddOrientOp().Set(Gf.Quatf(math.cos(half), 0.0, 0.0, math.sin(half)))
        prim.AddScaleOp().Set(Gf.Vec3f(*shape.size))
        return
    radius, length = shape.size
    reach = Gf.Vec3f(*(radius + (length / 2.0 if axis == shape.kind[-1] else 0.0) for axis in "xyz"))
    capsule: Any = UsdGeom.Capsule(prim)
    capsule.GetRadiusAttr().Set(radius)
    capsule.GetHeightAttr().Set(length)
    capsule.GetExtentAttr().Set([-reach, reach])
