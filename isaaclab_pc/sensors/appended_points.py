# SPDX-License-Identifier: BSD-3-Clause
"""Points added to what the cameras see: the robot's own surface, an object's, or positions that a task writes."""

# USD's type stubs say that every call returns None.
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false, reportOptionalMemberAccess=false

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import trimesh
from isaaclab import cloner
from isaaclab.sim import SimulationContext, resolve_matching_prims_from_source
from isaaclab.utils.math import quat_apply
from isaaclab.utils.mesh import (
    PRIMITIVE_MESH_TYPES,
    create_trimesh_from_geom_mesh,
    create_trimesh_from_geom_shape,
)
from pxr import Usd, UsdGeom, UsdPhysics

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.sensors.appended_points_cfg import BodyPointsCfg

if TYPE_CHECKING:
    from isaaclab.assets import Articulation, RigidObject
    from isaaclab.scene import InteractiveScene


def sphere_points(num_points: int, radius: float) -> torch.Tensor:
    """Spread points over a sphere around the origin [m], by Fibonacci's spiral, shape (M, 3); one is the centre."""
    if num_points == 1:
        return torch.zeros(1, 3)

    index = torch.arange(num_points)
    z = 1.0 - (2.0 * index + 1.0) / num_points
    angle = index * np.pi * (3.0 - np.sqrt(5.0))
    ring = (1.0 - z.square()).sqrt()
    return radius * torch.stack([ring * angle.cos(), ring * angle.sin(), z], dim=1)


class BodyPoints:
    """Points fixed to an asset's bodies."""

    def __init__(self, cfg: BodyPointsCfg, scene: InteractiveScene, seed: int) -> None:
        """Sample the surfaces of an initialized scene's bodies once.

        Raises:
            ConfigError: No body of that name, the bodies have no geometry, or it differs between environments.
        """
        self._asset: Any = scene[cfg.asset]
        plan = SimulationContext.instance().get_clone_plan()
        if plan is not None and len(cloner.path.get_asset_prototypes(plan, self._asset.cfg.prim_path)) > 1:
            raise ConfigError(
                f"points.append: {cfg.asset!r} is not the same in all environments, and its surface is sampled once. "
                "Append other bodies, or take it out of env.randomized."
            )
        try:
            ids, names = self._asset.find_bodies(cfg.bodies)
        except ValueError as error:
            raise ConfigError(f"points.append: {cfg.asset!r} has no body {cfg.bodies!r}. {error}") from error

        surfaces = [body_surface(self._asset, name) for name in names]
        areas = np.array([surface.area for surface in surfaces])
        if not areas.sum() > 0:
            raise ConfigError(f"points.append: the bodies {names} of {cfg.asset!r} have no geometry to sample.")

        # Rounding the running sum, not each body's share, gives exactly num_points.
        ends = np.round(np.cumsum(areas) / areas.sum() * cfg.num_points).astype(int)
        counts = np.diff(ends, prepend=0)
        points = [
            trimesh.sample.sample_surface(surface, int(count), seed=seed)[0]
            for surface, count in zip(surfaces, counts, strict=True)
            if count > 0
        ]

        device = self._asset.device
        self._body = torch.tensor(np.repeat(ids, counts), device=device)
        self._local = torch.tensor(np.concatenate(points), dtype=torch.float32, device=device)

    def positions(self) -> torch.Tensor:
        """Return the points in the world [m], shape (N, M, 3)."""
        pos = self._asset.data.body_link_pos_w.torch[:, self._body]
        quat = self._asset.data.body_link_quat_w.torch[:, self._body]
        return pos + quat_apply(quat, self._local.expand_as(pos))


def body_surface(asset: Articulation | RigidObject, name: str) -> trimesh.Trimesh:
    """Return the visible surface of an initialized asset's body ``name`` in its own frame [m]; it may be empty."""
    bodies = resolve_matching_prims_from_source(
        asset.cfg.prim_path, lambda prim: prim.HasAPI(UsdPhysics.RigidBodyAPI), raise_if_no_matches=False
    )
    # The only body of a rigid object may go by another name in the physics backend than in USD.
    found = [prim for prim, _ in bodies if len(bodies) == 1 or prim.GetName() == name]

    meshes = []
    for body in found[:1]:
        cache = UsdGeom.XformCache()
        for prim in _visible_below(body):
            if prim.GetTypeName() == "Mesh":
                mesh = create_trimesh_from_geom_mesh(prim)
            elif prim.GetTypeName() in PRIMITIVE_MESH_TYPES:
                mesh = create_trimesh_from_geom_shape(prim)
            else:
                continue

            # USD's matrices act on rows; the body's own scale is part of its shape, its pose is not.
            body_pose: Any = cache.GetLocalToWorldTransform(body).RemoveScaleShear()
            to_body = cache.GetLocalToWorldTransform(prim) * body_pose.GetInverse()
            meshes.append(mesh.apply_transform(np.array(to_body).T))

    surface: Any = trimesh.util.concatenate(meshes) if meshes else trimesh.Trimesh()
    return surface


def _visible_below(body: Usd.Prim) -> Iterator[Usd.Prim]:
    """Yield a body's own prims that a camera sees: none of bodies below it, of guides or of hidden parts."""
    prims = iter(Usd.PrimRange(body, Usd.TraverseInstanceProxies()))
    for prim in prims:
        shown = UsdGeom.Imageable(prim)
        is_hidden = bool(shown) and (
            shown.ComputeVisibility() == UsdGeom.Tokens.invisible or shown.ComputePurpose() == UsdGeom.Tokens.guide
        )
        if is_hidden or (prim != body and prim.HasAPI(UsdPhysics.RigidBodyAPI)):
            prims.PruneChildren()
        else:
            yield prim
