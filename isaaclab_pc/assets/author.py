# SPDX-License-Identifier: BSD-3-Clause
"""Write the Panda's USD file: ``python -m isaaclab_pc.assets.author``, and help writing others.

Robots are made of capsules and boxes that are visual and collision shapes at once. A file carries what every backend
needs (UsdPhysics), PhysX's and Newton's own settings come from the spawn config in :mod:`.arm`.
"""

# USD's type stubs say that every call returns None.
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false, reportReturnType=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pxr import Gf, Sdf, Usd, UsdGeom, UsdPhysics, UsdShade
from scipy.spatial.transform import Rotation

from isaaclab_pc.assets.kinematics import JOINTS, Joint, forward_kinematics, rotation

FRANKA_USD = Path(__file__).parent / "data" / "franka_panda.usda"
"""The committed file."""

Vector = tuple[float, float, float]

ARM_GAINS = (1000.0, 100.0)
"""Stiffness and damping of the arm's drives [N*m/rad, N*m*s/rad]: those of ManiSkill's Panda."""

FINGER_GAINS = (400.0, 20.0)
"""Stiffness and damping of the fingers' drives [N/m, N*s/m]. With more damping grasps slip on Newton."""

FINGER_ARMATURE = {"physxJoint:armature": 2.0, "newton:armature": 0.1}
"""Inertia of the gripper's motor as each finger feels it on each solver [kg].

A finger of 15 g at the end of an arm of 18 kg is too light for the 8 iterations of PhysX: with 0.1 kg, a table that the
hand is pressed on and drawn across pulled it up to 0.2 m out of its joint's limits, with 2 kg 0.02 m. Newton's solver
holds the limits with 0.1 kg, and opens fewer drawers with 2 kg (58 of 64 instead of 62).
"""

FINGER_FRICTION = 1.0
"""Static and dynamic friction of the finger pads [1]."""

_WHITE = (0.9, 0.9, 0.92)
_DARK = (0.25, 0.25, 0.28)


@dataclass(frozen=True)
class Inertial:
    """Mass properties of a link."""

    mass: float
    """Mass [kg]."""

    com: Vector
    """Centre of mass in the link frame [m]."""

    inertia: tuple[float, float, float, float, float, float]
    """Inertia about the centre of mass in the link frame: xx, yy, zz, xy, xz, yz [kg*m^2]."""


@dataclass(frozen=True)
class Shape:
    """A primitive fixed to a link, seen and touched."""

    kind: str
    """``box``, or ``capsule_x``, ``capsule_y``, ``capsule_z`` by the capsule's axis."""

    center: Vector
    """Centre in the link frame [m]."""

    size: tuple[float, ...]
    """Edge lengths of a box, or radius and length without the caps of a capsule [m]."""

    color: Vector = _WHITE
    """Linear RGB in [0, 1]."""


INERTIALS: dict[str, Inertial] = {
    "panda_link0": Inertial(
        0.629769, (-0.041018, -0.00014, 0.049974), (0.00315, 0.00388, 0.004285, 8.2904e-7, 0.00015, 8.2299e-6)
    ),
    "panda_link1": Inertial(
        4.970684, (0.003875, 0.002081, -0.04762), (0.70337, 0.70661, 0.009117, -0.000139, 0.006772, 0.019169)
    ),
    "panda_link2": Inertial(
        0.646926, (-0.003141, -0.02872, 0.003495), (0.007962, 0.02811, 0.025995, -0.003925, 0.010254, 0.000704)
    ),
    "panda_link3": Inertial(
        3.228604, (0.027518, 0.039252, -0.066502), (0.037242, 0.036155, 0.01083, -0.004761, -0.011396, -0.012805)
    ),
    "panda_link4": Inertial(
        3.587895, (-0.05317, 0.104419, 0.027454), (0.025853, 0.019552, 0.028323, 0.007796, -0.001332, 0.008641)
    ),
    "panda_link5": Inertial(
        1.225946, (-0.011953, 0.041065, -0.038437), (0.035549, 0.029474, 0.008627, -0.002117, -0.004037, 0.000229)
    ),
    "panda_link6": Inertial(
        1.666555, (0.060149, -0.014117, -0.010517), (0.001964, 0.004354, 0.005433, 0.000109, -0.001158, 0.000341)
    ),
    "panda_link7": Inertial(
        0.735522, (0.010517, -0.004252, 0.061597), (0.012516, 0.010027, 0.004815, -0.000428, -0.001196, -0.000741)
    ),
    # The flange has no mass of its own in the sources (it is part of link 7); a body needs one.
    "panda_link8": Inertial(0.01, (0.0, 0.0, -0.005), (4e-6, 4e-6, 8e-6, 0.0, 0.0, 0.0)),
    "panda_hand": Inertial(0.73, (-0.01, 0.0, 0.03), (0.001, 0.0025, 0.0017, 0.0, 0.0, 0.0)),
    "panda_leftfinger": Inertial(0.015, (0.0, 0.0, 0.025), (2.375e-6, 2.375e-6, 7.5e-7, 0.0, 0.0, 0.0)),
    "panda_rightfinger": Inertial(0.015, (0.0, 0.0, 0.025), (2.375e-6, 2.375e-6, 7.5e-7, 0.0, 0.0, 0.0)),
}
"""Masses and inertias by link: the arm as identified by Gaz et al., "Dynamic Identification of the Franka Emika
Panda Robot With Retrieval of Feasible Parameters Using Penalty-Based Optimization", RA-L 2019, in the form
``franka_ros`` publishes; hand and fingers from ``franka_description``."""


def _finger(side: float) -> tuple[Shape, ...]:
    """Body and pad of a finger; ``side`` is +1 where the pad faces -y (left) and -1 where it faces +y."""
    return (
        Shape("box", (0.0, side * 0.0155, 0.020), (0.020, 0.015, 0.034), _DARK),
        Shape("box", (0.0, side * 0.0075, 0.0445), (0.021, 0.015, 0.019), _DARK),
    )


SHAPES: dict[str, tuple[Shape, ...]] = {
    # Links 0 and 1 are kept off the mounting surface so that they touch nothing.
    "panda_link0": (Shape("capsule_x", (-0.075, 0.0, 0.06), (0.055, 0.03)),),
    "panda_link1": (Shape("capsule_z", (0.0, 0.0, -0.155), (0.06, 0.21)),),
    "panda_link2": (Shape("capsule_z", (0.0, 0.0, 0.0), (0.06, 0.12)),),
    "panda_link3": (Shape("capsule_z", (0.0, 0.0, -0.145), (0.06, 0.15)),),
    "panda_link4": (Shape("capsule_z", (0.0, 0.0, 0.0), (0.06, 0.12)),),
    "panda_link5": (
        Shape("capsule_z", (0.0, 0.0, -0.26), (0.06, 0.10)),
        Shape("capsule_z", (0.0, 0.08, -0.13), (0.025, 0.14)),
    ),
    "panda_link6": (Shape("capsule_z", (0.0, 0.0, -0.03), (0.05, 0.08)),),
    "panda_link7": (
        Shape("capsule_z", (0.0, 0.0, 0.01), (0.04, 0.14)),
        Shape("capsule_x", (0.06, 0.0, 0.082), (0.03, 0.01)),
    ),
    "panda_link8": (),
    "panda_hand": (Shape("box", (0.0, 0.0, 0.03), (0.06, 0.20, 0.06)),),
    "panda_leftfinger": _finger(1.0),
    "panda_rightfinger": _finger(-1.0),
}
"""Shapes by link: the arm's are the coarse collision capsules of ``franka_description``."""


def _quaternion(matrix: NDArray[np.float64]) -> Gf.Quatf:
    """Return a rotation matrix as a quaternion with a non-negative real part, rounded so that the file is stable."""
    parts = Rotation.from_matrix(matrix).as_quat(canonical=True, scalar_first=True)
    return Gf.Quatf(*(np.round(parts, 8) + 0.0).tolist())


def _principal_inertia(inertial: Inertial) -> tuple[Vector, Gf.Quatf]:
    """Return the principal moments [kg*m^2] and the rotation from the principal axes to the link frame."""
    xx, yy, zz, xy, xz, yz = inertial.inertia
    moments, axes = np.linalg.eigh(np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]))
    # Eigenvectors come with any sign: make each one's largest entry positive, then the triad right-handed.
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
        radius, length = shape.size
        prim.CreateAxisAttr(shape.kind[-1].upper())
        prim.CreateRadiusAttr(radius)
        prim.CreateHeightAttr(length)
        reach = [length / 2 + radius if axis == shape.kind[-1] else radius for axis in "xyz"]
        prim.CreateExtentAttr([Gf.Vec3f(*(-r for r in reach)), Gf.Vec3f(*reach)])
    prim.AddTranslateOp().Set(Gf.Vec3d(*shape.center))
    if shape.kind == "box":
        prim.AddScaleOp().Set(Gf.Vec3f(*shape.size))
    prim.CreateDisplayColorAttr([Gf.Vec3f(*shape.color)])
    UsdPhysics.CollisionAPI.Apply(prim.GetPrim())
    return prim


def _author_link(
    stage: Usd.Stage, path: str, pose: NDArray[np.float64], inertial: Inertial, shapes: Sequence[Shape]
) -> list[UsdGeom.Gprim]:
    """Write one link: a rigid body at its pose at joint position 0, with its mass and shapes; returns the shapes."""
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
    """Write a joint's limits, drive and speed limit. USD counts angles in degrees, so gains are per degree."""
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


@dataclass(frozen=True, kw_only=True)
class Arm:
    """All that makes an arm of primitives with a parallel gripper, whose fingers are its sliding links."""

    name: str
    """Name of the root prim."""

    joints: tuple[Joint, ...]
    """Parents before children; the first one hangs on the link that is fixed to the world."""

    inertials: Mapping[str, Inertial]
    """Mass properties by link."""

    shapes: Mapping[str, tuple[Shape, ...]]
    """Shapes by link."""

    arm_gains: tuple[float, float]
    """Stiffness and damping of the turning joints' drives [N*m/rad, N*m*s/rad]."""

    finger_gains: tuple[float, float]
    """Stiffness and damping of the sliding joints' drives [N/m, N*s/m]."""


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
        for shape in shapes if link in fingers else ():
            binding = UsdShade.MaterialBindingAPI.Apply(shape.GetPrim())
            binding.Bind(pad, UsdShade.Tokens.weakerThanDescendants, "physics")
    UsdGeom.Scope.Define(stage, f"{root}/joints")
    author_anchor(stage, f"{root}/joints/root_joint", f"{root}/{arm.joints[0].parent}")
    for joint in arm.joints:
        author_joint(stage, root, joint, *(arm.finger_gains if joint.prismatic else arm.arm_gains))
        for name, inertia in FINGER_ARMATURE.items() if joint.prismatic else ():
            finger = stage.GetPrimAtPath(f"{root}/joints/{joint.name}")
            finger.CreateAttribute(name, Sdf.ValueTypeNames.Float, custom=False).Set(inertia)
    save(stage, path)


PANDA = Arm(
    name="panda",
    joints=JOINTS,
    inertials=INERTIALS,
    shapes=SHAPES,
    arm_gains=ARM_GAINS,
    finger_gains=FINGER_GAINS,
)
"""The Panda of primitives."""


if __name__ == "__main__":
    author_arm(FRANKA_USD, PANDA)
    print(FRANKA_USD)
