# SPDX-License-Identifier: BSD-3-Clause
"""Writes an arm and its gripper as the USD that PhysX and Newton both take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import trimesh
from pxr import Gf, Sdf, Usd, UsdGeom, UsdPhysics, UsdShade, Vt
from scipy.spatial.transform import Rotation

from isaaclab_pc.assets.robot_import import FINGER_ARMATURE, FINGER_FRICTION
from isaaclab_pc.assets.robot_import.description import Array, Description, Joint, Shape
from isaaclab_pc.assets.robot_import.parts import Parts, place_links
from isaaclab_pc.errors import ConfigError

_MOST_TRIANGLES = 3_000
"""Triangles of a link's visuals."""

# USD's type stubs say that every call returns None.
_GEOM: Any = UsdGeom
_PHYSICS: Any = UsdPhysics


def write_robot_usd(robot: Description, parts: Parts, path: Path) -> int:
    """Write the arm and its gripper, and return the number of collision shapes; the base has none.

    Raises:
        ConfigError: A link that moves has no mass.
    """
    stage: Any = Usd.Stage.CreateNew(str(path))
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.z)
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    root = _GEOM.Xform.Define(stage, "/robot").GetPrim()
    stage.SetDefaultPrim(root)
    UsdPhysics.ArticulationRootAPI.Apply(root)
    pad: Any = UsdShade.Material.Define(stage, "/robot/finger_pad")
    material = _PHYSICS.MaterialAPI.Apply(pad.GetPrim())
    material.CreateStaticFrictionAttr(FINGER_FRICTION)
    material.CreateDynamicFrictionAttr(FINGER_FRICTION)

    # With an empty body0, both engines take the base for fixed.
    anchor = _PHYSICS.FixedJoint.Define(stage, "/robot/root_joint")
    anchor.CreateBody1Rel().SetTargets([f"/robot/{robot.names[0]}"])
    frames, num_colliders = place_links(robot, parts, {}), 0
    anchor.CreateLocalRot0Attr(_quaternion(frames[0]))
    _write_link(stage, robot, 0, frames[0], np.eye(4))
    for joint in [*parts.arm, *parts.fingers]:
        link, name = joint.child, robot.names[joint.child]
        if robot.builder.body_mass[link] <= 0:
            raise ConfigError(f"link {name} moves and has no mass: give it one, in its inertial.")
        in_link = parts.in_hand if link == parts.hand else np.eye(4)
        _write_link(stage, robot, link, frames[link], np.linalg.inv(in_link))
        colliders = [shape.mesh for shape in robot.shapes(link) if shape.collides]
        for index, mesh in enumerate(colliders):
            prim = _write_collider(stage, f"/robot/{name}/collider_{index}", mesh, np.linalg.inv(in_link))
            if joint in parts.fingers:
                binding: Any = UsdShade.MaterialBindingAPI.Apply(prim)
                binding.Bind(pad, UsdShade.Tokens.weakerThanDescendants, "physics")
        num_colliders += len(colliders)
        _write_joint(stage, robot, joint, joint.to_child @ in_link)
    for child, pose in parts.unmoved.items():
        _write_visuals(stage, f"/robot/{robot.names[parts.hand]}/unmoved_{child}", robot.shapes(child), pose)
    stage.GetRootLayer().Save()
    return num_colliders


def _quaternion(matrix: Array) -> Any:
    return Gf.Quatf(*Rotation.from_matrix(matrix[:3, :3]).as_quat(canonical=True, scalar_first=True).tolist())


def _place(prim: Any, pose: Array) -> None:
    prim.AddTranslateOp().Set(Gf.Vec3d(*pose[:3, 3].tolist()))
    prim.AddOrientOp().Set(_quaternion(pose))


def _write_link(stage: Any, robot: Description, link: int, pose: Array, to_frame: Array) -> None:
    """Write a rigid body at a pose and its visuals; values are moved ``to_frame``."""
    path, builder = f"/robot/{robot.names[link]}", robot.builder
    body = _GEOM.Xform.Define(stage, path)
    _place(body, pose)
    UsdPhysics.RigidBodyAPI.Apply(body.GetPrim())
    moments, axes = np.linalg.eigh(np.array(builder.body_inertia[link], dtype=float).reshape(3, 3))
    axes[:, 0] *= np.sign(np.linalg.det(axes))
    centre = to_frame[:3, :3] @ np.array(builder.body_com[link], dtype=float) + to_frame[:3, 3]
    mass = _PHYSICS.MassAPI.Apply(body.GetPrim())
    mass.CreateMassAttr(float(builder.body_mass[link]) or 1.0)
    mass.CreateCenterOfMassAttr(Gf.Vec3f(*centre.tolist()))
    mass.CreateDiagonalInertiaAttr(Gf.Vec3f(*np.maximum(moments, 1e-7).tolist()))
    mass.CreatePrincipalAxesAttr(_quaternion(to_frame[:3, :3] @ axes))
    _write_visuals(stage, f"{path}/visuals", robot.shapes(link), to_frame)


def _write_collider(stage: Any, path: str, mesh: Any, to_frame: Array) -> Any:
    if isinstance(mesh, trimesh.primitives.Box):
        prim = _GEOM.Cube.Define(stage, path)
        _place(prim, to_frame @ mesh.primitive.transform)
        prim.AddScaleOp().Set(Gf.Vec3f(*(np.asarray(mesh.primitive.extents) / 2).tolist()))
    else:
        prim = _write_mesh(stage, path, mesh, to_frame)
        _PHYSICS.MeshCollisionAPI.Apply(prim.GetPrim()).CreateApproximationAttr(UsdPhysics.Tokens.convexHull)
    prim.CreatePurposeAttr(UsdGeom.Tokens.guide)
    UsdPhysics.CollisionAPI.Apply(prim.GetPrim())
    return prim.GetPrim()


def _write_visuals(stage: Any, path: str, shapes: list[Shape], to_frame: Array) -> None:
    """Write a link's visuals as one mesh, in the colour of its largest part."""
    visuals = [shape for shape in shapes if shape.is_visual]
    if visuals:
        mesh: Any = trimesh.util.concatenate([shape.mesh for shape in visuals])
        if len(mesh.faces) > _MOST_TRIANGLES:
            mesh = mesh.simplify_quadric_decimation(face_count=_MOST_TRIANGLES)
        largest = max(visuals, key=lambda shape: float(shape.mesh.area))
        _write_mesh(stage, path, mesh, to_frame).CreateDisplayColorAttr([Gf.Vec3f(*map(float, largest.color))])


def _write_mesh(stage: Any, path: str, mesh: trimesh.Trimesh, to_frame: Array) -> Any:
    points = trimesh.transform_points(mesh.vertices, to_frame).astype(np.float32)
    prim = _GEOM.Mesh.Define(stage, path)
    prim.CreatePointsAttr(Vt.Vec3fArray.FromNumpy(points))
    prim.CreateFaceVertexIndicesAttr(Vt.IntArray.FromNumpy(np.asarray(mesh.faces, dtype=np.int32).ravel()))
    prim.CreateFaceVertexCountsAttr(Vt.IntArray([3] * len(mesh.faces)))
    prim.CreateSubdivisionSchemeAttr(UsdGeom.Tokens.none)
    return prim


def _write_joint(stage: Any, robot: Description, joint: Joint, to_child: Array) -> None:
    """Write a joint along the z axis of its frames, with a drive; its gains are in the robot's configuration."""
    kind = _PHYSICS.PrismaticJoint if joint.slides else _PHYSICS.RevoluteJoint
    typed = kind.Define(stage, f"/robot/joints/{joint.name}")
    prim = typed.GetPrim()
    typed.CreateAxisAttr("Z")
    typed.CreateBody0Rel().SetTargets([f"/robot/{robot.names[joint.parent]}"])
    typed.CreateBody1Rel().SetTargets([f"/robot/{robot.names[joint.child]}"])
    turn = np.eye(4)
    turn[:3, :3] = Rotation.align_vectors([joint.axis], [[0.0, 0.0, 1.0]])[0].as_matrix()
    in_parent, in_child = joint.in_parent @ turn, np.linalg.inv(to_child) @ turn
    typed.CreateLocalPos0Attr(Gf.Vec3f(*in_parent[:3, 3].tolist()))
    typed.CreateLocalRot0Attr(_quaternion(in_parent))
    typed.CreateLocalPos1Attr(Gf.Vec3f(*in_child[:3, 3].tolist()))
    typed.CreateLocalRot1Attr(_quaternion(in_child))

    # USD's angles are in degrees.
    unit = 1.0 if joint.slides else 180.0 / np.pi
    typed.CreateLowerLimitAttr(joint.lower * unit)
    typed.CreateUpperLimitAttr(joint.upper * unit)
    UsdPhysics.DriveAPI.Apply(prim, "linear" if joint.slides else "angular")
    prim.AddAppliedSchema("PhysxJointAPI")
    for name, inertia in FINGER_ARMATURE.items() if joint.slides else ():
        prim.CreateAttribute(name, Sdf.ValueTypeNames.Float, custom=False).Set(inertia)
