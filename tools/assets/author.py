# SPDX-License-Identifier: BSD-3-Clause
"""Write an arm made of primitives as a USD file, and the parts that other articulations need too.

Arms are made of capsules and boxes that are visual and collision shapes at once. A file holds what every backend needs
(UsdPhysics); PhysX's and Newton's own settings come from the spawn config in ``isaaclab_pc/assets/arm.py``. Tables of
each robot are in a module of its own, such as ``author_franka.py``.
"""

# USD's type stubs say that every call returns None.
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false, reportReturnType=false

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pxr import Gf, Sdf, Usd, UsdGeom, UsdPhysics, UsdShade
from scipy.spatial.transform import Rotation

from isaaclab_pc.assets.articulated.spawner import resize
from isaaclab_pc.assets.robot_import import FINGER_ARMATURE, FINGER_FRICTION
from tools.assets.kinematics import Joint, Vector, forward_kinematics, rotation
from tools.assets.primitives import Arm, Inertial, Shape


def _quaternion(matrix: NDArray[np.float64]) -> Gf.Quatf:
    """Return a rotation matrix as a quaternion with a non-negative real part, rounded so that the file is stable."""
    parts = Rotation.from_matrix(matrix).as_quat(canonical=True, scalar_first=True)
    return Gf.Quatf(*(np.round(parts, 8) + 0.0).tolist())


def _principal_inertia(inertial: Inertial) -> tuple[Vector, Gf.Quatf]:
    """Return the principal moments [kg*m^2] and the rotation from the principal axes to the link frame."""
    xx, yy, zz, xy, xz, yz = inertial.inertia
    moments, axes = np.linalg.eigh(np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]))

    # Eigenvectors have no sign of their own: make each one's largest entry positive, then the triad right-handed.
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), range(3)])
    axes[:, 2] *= np.sign(np.linalg.det(axes))
    return tuple(np.round(moments, 9).tolist()), _quaternion(axes)


def new_articulation(path: str) -> Usd.Stage:
    """Return a stage in memory, in metres and kilograms with z up, whose default prim is an articulation's root.

    Args:
        path: Path of that prim.

    Returns:
        The stage; :func:`save` writes it.
    """
    stage = Usd.Stage.CreateInMemory()
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.z)
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    UsdPhysics.SetStageKilogramsPerUnit(stage, 1.0)
    root = UsdGeom.Xform.Define(stage, path).GetPrim()
    stage.SetDefaultPrim(root)
    UsdPhysics.ArticulationRootAPI.Apply(root)
    return stage


def author_anchor(stage: Usd.Stage, path: str, body: str) -> None:
    """Write the joint that fixes a body to the world: with an empty body0 it does so on PhysX and on Newton.

    Args:
        stage: Where to write.
        path: Path of the joint.
        body: Path of the rigid body.
    """
    UsdPhysics.FixedJoint.Define(stage, path).CreateBody1Rel().SetTargets([body])


def save(stage: Usd.Stage, path: Path) -> None:
    """Write a stage as text.

    Args:
        stage: What to write.
        path: Where to write; its folder is made when absent and an existing file is replaced.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(stage.GetRootLayer().ExportToString(), encoding="utf-8")


def author_shape(stage: Usd.Stage, path: str, shape: Shape) -> UsdGeom.Gprim:
    """Write one shape as a visible collider.

    Args:
        stage: Where to write.
        path: Path of the shape, below its link.
        shape: What to write.

    Returns:
        The prim.
    """
    if shape.kind == "box":
        prim = UsdGeom.Cube.Define(stage, path)
        prim.CreateSizeAttr(1.0)
        prim.CreateExtentAttr([Gf.Vec3f(-0.5), Gf.Vec3f(0.5)])
    else:
        prim = UsdGeom.Capsule.Define(stage, path)
        prim.CreateAxisAttr(shape.kind[-1].upper())

    resize(prim, shape)
    prim.CreateDisplayColorAttr([Gf.Vec3f(*shape.color)])
    UsdPhysics.CollisionAPI.Apply(prim.GetPrim())
    return prim


def _author_link(
    stage: Usd.Stage, path: str, pose: NDArray[np.float64], inertial: Inertial, shapes: Sequence[Shape]
) -> list[UsdGeom.Gprim]:
    """Write one link, a rigid body at its pose at joint position 0 with its mass and shapes, and return the shapes."""
    link = UsdGeom.Xform.Define(stage, path)
    link.AddTranslateOp().Set(Gf.Vec3d(*np.round(pose[:3, 3], 8).tolist()))
    link.AddOrientOp().Set(_quaternion(pose[:3, :3]))
    UsdPhysics.RigidBodyAPI.Apply(link.GetPrim())

    moments, axes = _principal_inertia(inertial)
    mass = UsdPhysics.MassAPI.Apply(link.GetPrim())
    mass.CreateMassAttr(inertial.mass)
    mass.CreateCenterOfMassAttr(Gf.Vec3f(*inertial.com))
    mass.CreateDiagonalInertiaAttr(Gf.Vec3f(*moments))
    mass.CreatePrincipalAxesAttr(axes)

    return [author_shape(stage, f"{path}/shape_{index}", shape) for index, shape in enumerate(shapes)]


def _author_drive(joint: Joint, prim: Usd.Prim, stiffness: float, damping: float) -> None:
    """Write a joint's limits, drive and speed limit."""
    # USD's angles are in degrees, and so its gains are per degree.
    per_unit = 1.0 if joint.prismatic else np.pi / 180.0

    typed = UsdPhysics.PrismaticJoint(prim) if joint.prismatic else UsdPhysics.RevoluteJoint(prim)
    typed.CreateLowerLimitAttr(round(joint.lower / per_unit, 6))
    typed.CreateUpperLimitAttr(round(joint.upper / per_unit, 6))

    drive = UsdPhysics.DriveAPI.Apply(prim, "linear" if joint.prismatic else "angular")
    drive.CreateTypeAttr("force")
    drive.CreateStiffnessAttr(round(stiffness * per_unit, 6))
    drive.CreateDampingAttr(round(damping * per_unit, 6))
    drive.CreateMaxForceAttr(joint.effort)

    # PhysX's schema classes are not part of USD: its name and attribute are written as they are.
    prim.AddAppliedSchema("PhysxJointAPI")
    limit = prim.CreateAttribute("physxJoint:maxJointVelocity", Sdf.ValueTypeNames.Float, custom=False)
    limit.Set(round(joint.velocity / per_unit, 6))


def author_joint(stage: Usd.Stage, root: str, joint: Joint, stiffness: float, damping: float) -> None:
    """Write one joint between two links of an articulation.

    Args:
        stage: Where to write.
        root: Path of the articulation, above its links and the scope ``joints``.
        joint: Turns about z, slides along an axis of either sign, or is fixed.
        stiffness: Of the drive [N*m/rad or N/m].
        damping: Of the drive [N*m*s/rad or N*s/m].
    """
    path = f"{root}/joints/{joint.name}"
    origin = rotation(joint.rpy)
    turn = np.eye(3)
    if joint.axis is None:
        prim = UsdPhysics.FixedJoint.Define(stage, path)
    elif joint.prismatic:
        prim = UsdPhysics.PrismaticJoint.Define(stage, path)
        along = int(np.abs(joint.axis).argmax())
        prim.CreateAxisAttr("XYZ"[along])
        # USD's axes are positive: what slides along -x or -y gets frames turned about z.
        turn = np.diag([joint.axis[along], joint.axis[along], 1.0])
    else:
        prim = UsdPhysics.RevoluteJoint.Define(stage, path)
        prim.CreateAxisAttr("Z")

    prim.CreateBody0Rel().SetTargets([f"{root}/{joint.parent}"])
    prim.CreateBody1Rel().SetTargets([f"{root}/{joint.child}"])
    prim.CreateLocalPos0Attr(Gf.Vec3f(*joint.xyz))
    prim.CreateLocalRot0Attr(_quaternion(origin @ turn))
    prim.CreateLocalPos1Attr(Gf.Vec3f(0.0))
    prim.CreateLocalRot1Attr(_quaternion(turn))

    if joint.axis is not None:
        _author_drive(joint, prim.GetPrim(), stiffness, damping)


def author_arm(path: Path, arm: Arm) -> None:
    """Write an arm of primitives as a USD file.

    Args:
        path: Where to write; its folder is made when absent and an existing file is replaced.
        arm: What to write.
    """
    root = f"/{arm.name}"
    stage = new_articulation(root)

    pad = UsdShade.Material.Define(stage, f"{root}/finger_pad")
    material = UsdPhysics.MaterialAPI.Apply(pad.GetPrim())
    material.CreateStaticFrictionAttr(FINGER_FRICTION)
    material.CreateDynamicFrictionAttr(FINGER_FRICTION)
    material.CreateRestitutionAttr(0.0)

    fingers = {joint.child for joint in arm.joints if joint.prismatic}
    for link, pose in forward_kinematics({}, arm.joints).items():
        shapes = _author_link(stage, f"{root}/{link}", pose, arm.inertials[link], arm.shapes[link])
        if link not in fingers:
            continue
        for shape in shapes:
            binding = UsdShade.MaterialBindingAPI.Apply(shape.GetPrim())
            binding.Bind(pad, UsdShade.Tokens.weakerThanDescendants, "physics")

    UsdGeom.Scope.Define(stage, f"{root}/joints")
    author_anchor(stage, f"{root}/joints/root_joint", f"{root}/{arm.joints[0].parent}")
    for joint in arm.joints:
        author_joint(stage, root, joint, *arm.gains(joint))
        if joint.prismatic:
            finger = stage.GetPrimAtPath(f"{root}/joints/{joint.name}")
            for name, inertia in FINGER_ARMATURE.items():
                finger.CreateAttribute(name, Sdf.ValueTypeNames.Float, custom=False).Set(inertia)
    save(stage, path)
