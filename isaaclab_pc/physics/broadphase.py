# SPDX-License-Identifier: BSD-3-Clause
"""Shapes of different sizes in different environments, on MuJoCo Warp.

Newton 1.6 hands MuJoCo Warp the size of every shape in every environment, but the bounds that its broad phase tests
first (``geom_rbound``, ``geom_aabb``) stay those of the first environment. A larger shape in another environment
collides only once it is deep inside what it touches: a cube of 0.3 m beside one of 0.1 m in the first environment came
to rest at three times its height. PhysX computes its bounds itself.
"""

from typing import Any

import torch
import warp as wp

from isaaclab_pc.physics.contacts import mujoco_warp_solver

# Values of mujoco.mjtGeom; an ellipsoid is 4.
_SPHERE = 2
_CAPSULE = 3
_CYLINDER = 5
_BOX = 6


def shape_bounds(kind: torch.Tensor, size: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the radius of the bounding sphere (W, G) and half extents of the bounding box (W, G, 3) of primitives [m].

    ``kind`` (G,) is MuJoCo's geometry type: sphere, capsule, ellipsoid, cylinder or box; ``size`` (W, G, 3) its size
    [m].
    """
    radius = size[..., 0]
    length = size[..., 1]

    half = torch.where((kind == _SPHERE)[:, None], radius[..., None], size)
    for round_kind, height in ((_CAPSULE, radius + length), (_CYLINDER, length)):
        half = torch.where((kind == round_kind)[:, None], torch.stack([radius, radius, height], dim=-1), half)

    sphere = half.amax(dim=-1)
    sphere = torch.where(kind == _CYLINDER, torch.hypot(radius, length), sphere)
    sphere = torch.where(kind == _BOX, torch.linalg.vector_norm(half, dim=-1), sphere)
    return sphere, half


def fit_broadphase(physics: Any) -> None:
    """Enlarge the bounds of shapes that differ in size between environments; nothing happens but on MuJoCo Warp.

    Call it once, after the simulation has started. Meshes and planes are left as they are.
    """
    solver = mujoco_warp_solver(physics)
    if solver is None:
        return

    model = solver.mjw_model
    size = wp.to_torch(model.geom_size)
    kind = wp.to_torch(model.geom_type)
    primitive = (kind >= _SPHERE) & (kind <= _BOX)
    differs = primitive & (size != size[:1]).any(dim=2).any(dim=0)

    sphere, half = shape_bounds(kind, size)
    radius = wp.to_torch(model.geom_rbound)
    box = wp.to_torch(model.geom_aabb)
    radius[:, differs] = sphere[:, differs]
    # One box serves all environments.
    box[:, differs, 1] = half[:, differs].amax(dim=0)
