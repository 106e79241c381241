# SPDX-License-Identifier: BSD-3-Clause
"""Writes an object as USD. Loads USD's modules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from pxr import Gf, Usd, UsdGeom, UsdPhysics, Vt
from scipy.spatial.transform import Rotation

from isaaclab_pc.assets.objects.graspable import Graspable

_COLOR = (0.10, 0.35, 0.80)
_INSIDE = 0.3
"""Size of a part that only pads, of the part that it lies in."""


def write_usd(graspable: Graspable, path: Path, num_parts: int = 0) -> None:
    """Write a rigid body of convex meshes with its mass, its origin in the centre of mass.

    Newton wants as many shapes in every environment: with ``num_parts`` above its own, copies inside its first part are
    added. Contacts and friction are left to whoever spawns it.
    """
    stage: Any = Usd.Stage.CreateNew(str(path))
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.z)
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    body: Any = UsdGeom.Xform.Define(stage, "/Object")
    body = body.GetPrim()
    stage.SetDefaultPrim(body)
    UsdPhysics.RigidBodyAPI.Apply(body)
    _write_mass(UsdPhysics.MassAPI.Apply(body), graspable)

    parts = [(np.asarray(part.vertices), np.asarray(part.faces)) for part in graspable.parts()]
    first, faces = parts[0]
    middle = first.mean(axis=0)
    padding = [(middle + _INSIDE * (first - middle), faces)] * (num_parts - len(parts))
    for index, (vertices, faces) in enumerate([*parts, *padding]):
        mesh: Any = UsdGeom.Mesh.Define(stage, f"/Object/part_{index:02d}")
        mesh.CreatePointsAttr(Vt.Vec3fArray.FromNumpy(vertices.astype(np.float32)))
        mesh.CreateFaceVertexIndicesAttr(Vt.IntArray.FromNumpy(faces.astype(np.int32).ravel()))
        mesh.CreateFaceVertexCountsAttr(Vt.IntArray([3] * len(faces)))
        mesh.CreateSubdivisionSchemeAttr(UsdGeom.Tokens.none)
        # A material of the whole body would not reach the parts on Newton.
        mesh.CreateDisplayColorAttr(Vt.Vec3fArray([Gf.Vec3f(*_COLOR)]))
        UsdPhysics.CollisionAPI.Apply(mesh.GetPrim())
        collision: Any = UsdPhysics.MeshCollisionAPI.Apply(mesh.GetPrim())
        collision.CreateApproximationAttr(UsdPhysics.Tokens.convexHull)
    stage.GetRootLayer().Save()


def _write_mass(mass: Any, graspable: Graspable) -> None:
    moments, axes = np.linalg.eigh(graspable.inertia)
    # A rotation, and no reflection.
    axes[:, 0] *= np.sign(np.linalg.det(axes))
    x, y, z, w = Rotation.from_matrix(axes).as_quat().tolist()
    mass.CreateMassAttr(graspable.mass)
    mass.CreateCenterOfMassAttr(Gf.Vec3f(0.0))
    mass.CreateDiagonalInertiaAttr(Gf.Vec3f(*moments.tolist()))
    mass.CreatePrincipalAxesAttr(Gf.Quatf(w, x, y, z))
