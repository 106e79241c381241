# SPDX-License-Identifier: BSD-3-Clause
"""The robot's USD: the committed file is what the code writes, and what simulators need is in it."""

# USD's type stubs say that every call returns None.
# pyright: reportAttributeAccessIssue=false, reportReturnType=false, reportGeneralTypeIssues=false

from pathlib import Path

import numpy as np
import pytest
from pxr import Usd, UsdGeom, UsdPhysics
from scipy.spatial.transform import Rotation

from isaaclab_pc.assets.author import FRANKA_USD, INERTIALS, SHAPES, author_franka
from isaaclab_pc.assets.kinematics import DEFAULT_JOINT_POS, JOINTS, LINKS, forward_kinematics


@pytest.fixture(scope="module")
def stage() -> Usd.Stage:
    return Usd.Stage.Open(str(FRANKA_USD))


def test_committed_file_is_what_the_script_writes(tmp_path: Path):
    author_franka(tmp_path / "sub" / "robot.usda")
    written = (tmp_path / "sub" / "robot.usda").read_text(encoding="utf-8")
    assert written == FRANKA_USD.read_text(encoding="utf-8"), "run: python -m isaaclab_pc.assets.author"


def test_root_is_the_articulation_and_fixed_to_the_world(stage: Usd.Stage):
    root = stage.GetDefaultPrim()
    assert root.HasAPI(UsdPhysics.ArticulationRootAPI)
    anchor = UsdPhysics.Joint.Get(stage, "/panda/joints/root_joint")
    assert not anchor.GetBody0Rel().GetTargets()
    assert [str(path) for path in anchor.GetBody1Rel().GetTargets()] == ["/panda/panda_link0"]


@pytest.mark.parametrize("name", LINKS)
def test_every_link_has_a_physically_possible_mass(stage: Usd.Stage, name: str):
    prim = stage.GetPrimAtPath(f"/panda/{name}")
    assert prim.HasAPI(UsdPhysics.RigidBodyAPI)
    mass = UsdPhysics.MassAPI(prim)
    assert mass.GetMassAttr().Get() == pytest.approx(INERTIALS[name].mass)
    moments = np.array(mass.GetDiagonalInertiaAttr().Get())
    assert (moments > 0.0).all()
    # Principal moments of a body obey the triangle inequality; identified values may miss it by a little.
    assert moments.sum() - 2.0 * moments.max() > -0.1 * moments.max()


@pytest.mark.parametrize("name", LINKS)
def test_principal_axes_give_back_the_inertia(stage: Usd.Stage, name: str):
    mass = UsdPhysics.MassAPI(stage.GetPrimAtPath(f"/panda/{name}"))
    quat = mass.GetPrincipalAxesAttr().Get()
    axes = Rotation.from_quat([*quat.GetImaginary(), quat.GetReal()]).as_matrix()
    tensor = axes @ np.diag(mass.GetDiagonalInertiaAttr().Get()) @ axes.T
    xx, yy, zz, xy, xz, yz = INERTIALS[name].inertia
    np.testing.assert_allclose(tensor, [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]], atol=2e-6 * max(xx, yy, zz) + 1e-9)


def test_masses_add_up_to_the_published_arm():
    assert sum(inertial.mass for inertial in INERTIALS.values()) == pytest.approx(17.46, abs=0.05)


@pytest.mark.parametrize("joint", JOINTS, ids=lambda joint: joint.name)
def test_every_movable_joint_has_limits_a_drive_and_a_speed_limit(stage: Usd.Stage, joint):
    prim = stage.GetPrimAtPath(f"/panda/joints/{joint.name}")
    if joint.axis is None:
        assert prim.IsA(UsdPhysics.FixedJoint)
        return
    unit = 1.0 if joint.prismatic else 180.0 / np.pi
    typed = UsdPhysics.PrismaticJoint(prim) if joint.prismatic else UsdPhysics.RevoluteJoint(prim)
    assert typed.GetLowerLimitAttr().Get() == pytest.approx(joint.lower * unit, abs=1e-4)
    assert typed.GetUpperLimitAttr().Get() == pytest.approx(joint.upper * unit, abs=1e-4)
    assert prim.GetAttribute("physxJoint:maxJointVelocity").Get() == pytest.approx(joint.velocity * unit, rel=1e-5)
    drive = UsdPhysics.DriveAPI.Get(prim, "linear" if joint.prismatic else "angular")
    assert drive.GetMaxForceAttr().Get() == pytest.approx(joint.effort)
    assert drive.GetStiffnessAttr().Get() > 0.0
    assert drive.GetDampingAttr().Get() > 0.0


def test_every_shape_is_seen_and_touched(stage: Usd.Stage):
    shapes = [prim for prim in stage.Traverse() if prim.IsA(UsdGeom.Gprim)]
    assert len(shapes) == sum(len(group) for group in SHAPES.values())
    for prim in shapes:
        assert prim.HasAPI(UsdPhysics.CollisionAPI)
        assert UsdGeom.Imageable(prim).ComputePurpose() == UsdGeom.Tokens.default_
    for name in ("panda_hand", "panda_leftfinger", "panda_rightfinger"):
        assert SHAPES[name]


def test_no_shape_reaches_the_mounting_surface_at_the_default_pose():
    poses = forward_kinematics(DEFAULT_JOINT_POS)
    for link, shapes in SHAPES.items():
        for shape in shapes:
            pose = poses[link] @ np.array([*shape.center, 1.0])
            if shape.kind == "box":
                reach = np.abs(poses[link][2, :3]) @ shape.size / 2
            else:
                radius, length = shape.size
                reach = radius + length / 2 * abs(poses[link][2, "xyz".index(shape.kind[-1])])
            assert pose[2] - reach > 0.004, link


def test_closed_fingers_meet_at_the_tool_centre():
    poses = forward_kinematics({})
    hand = np.linalg.inv(poses["panda_hand"])
    for side, direction in (("left", 1.0), ("right", -1.0)):
        pad = SHAPES[f"panda_{side}finger"][-1]
        center = (hand @ poses[f"panda_{side}finger"] @ [*pad.center, 1.0])[:3]
        assert direction * center[1] - pad.size[1] / 2 == pytest.approx(0.0, abs=1e-9)
        assert abs(center[2] - 0.1034) < pad.size[2] / 2
