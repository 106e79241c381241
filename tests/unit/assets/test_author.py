# SPDX-License-Identifier: BSD-3-Clause
"""The arms' USD: the committed files are what the code writes, and what simulators need is in them."""

# USD's type stubs say that every call returns None.
# pyright: reportAttributeAccessIssue=false, reportReturnType=false, reportGeneralTypeIssues=false

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from isaaclab.sim import UsdFileCfg
from pxr import Usd, UsdGeom, UsdPhysics
from scipy.spatial.transform import Rotation

from isaaclab_pc.assets.arm import ArmCfg
from isaaclab_pc.assets.franka import FRANKA_PANDA_PRIMITIVE_CFG, FRANKA_USD
from isaaclab_pc.assets.ur5e import UR5E_GRIPPER_CFG, UR5E_USD
from tools.assets.author import author_arm
from tools.assets.author_franka import FRANKA
from tools.assets.author_ur5e import UR5E
from tools.assets.kinematics import forward_kinematics
from tools.assets.primitives import Arm


@dataclass(frozen=True)
class Robot:
    arm: Arm
    usd: Path
    module: str
    cfg: ArmCfg


ROBOTS = (
    Robot(FRANKA, FRANKA_USD, "author_franka", FRANKA_PANDA_PRIMITIVE_CFG),
    Robot(UR5E, UR5E_USD, "author_ur5e", UR5E_GRIPPER_CFG),
)
LINKS = [pytest.param(r, link, id=f"{r.arm.name}-{link}") for r in ROBOTS for link in r.arm.inertials]
JOINTS = [pytest.param(r, joint, id=f"{r.arm.name}-{joint.name}") for r in ROBOTS for joint in r.arm.joints]

each_robot = pytest.mark.parametrize("robot", ROBOTS, ids=lambda robot: robot.arm.name)


@cache
def open_stage(usd: Path) -> Usd.Stage:
    return Usd.Stage.Open(str(usd))


@each_robot
def test_committed_file_is_what_the_script_writes(tmp_path: Path, robot: Robot):
    author_arm(tmp_path / "sub" / "robot.usda", robot.arm)
    written = (tmp_path / "sub" / "robot.usda").read_text(encoding="utf-8")
    assert written == robot.usd.read_text(encoding="utf-8"), f"run: python -m tools.assets.{robot.module}"


@each_robot
def test_root_is_the_articulation_and_fixed_to_the_world(robot: Robot):
    stage = open_stage(robot.usd)
    root = stage.GetDefaultPrim()
    assert root.HasAPI(UsdPhysics.ArticulationRootAPI)
    anchor = UsdPhysics.Joint.Get(stage, f"/{robot.arm.name}/joints/root_joint")
    assert not anchor.GetBody0Rel().GetTargets()
    assert [str(path) for path in anchor.GetBody1Rel().GetTargets()] == [
        f"/{robot.arm.name}/{robot.arm.joints[0].parent}"
    ]


@pytest.mark.parametrize(("robot", "link"), LINKS)
def test_every_link_has_a_physically_possible_mass_and_its_inertia(robot: Robot, link: str):
    prim = open_stage(robot.usd).GetPrimAtPath(f"/{robot.arm.name}/{link}")
    assert prim.HasAPI(UsdPhysics.RigidBodyAPI)
    mass = UsdPhysics.MassAPI(prim)
    assert mass.GetMassAttr().Get() == pytest.approx(robot.arm.inertials[link].mass)
    moments = np.array(mass.GetDiagonalInertiaAttr().Get())
    assert (moments > 0.0).all()
    # Principal moments of a body obey the triangle inequality; identified values may miss it by a little.
    assert moments.sum() - 2.0 * moments.max() > -0.1 * moments.max()

    quat = mass.GetPrincipalAxesAttr().Get()
    axes = Rotation.from_quat([*quat.GetImaginary(), quat.GetReal()]).as_matrix()
    tensor = axes @ np.diag(moments) @ axes.T
    xx, yy, zz, xy, xz, yz = robot.arm.inertials[link].inertia
    np.testing.assert_allclose(tensor, [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]], atol=2e-6 * max(xx, yy, zz) + 1e-9)


@pytest.mark.parametrize(
    ("robot", "published"), [(ROBOTS[0], 17.46), (ROBOTS[1], 4.0 + 17.7 + 0.9)], ids=lambda value: str(value)[:5]
)
def test_masses_add_up_to_the_published_arm(robot: Robot, published: float):
    assert sum(inertial.mass for inertial in robot.arm.inertials.values()) == pytest.approx(published, abs=0.05)


@pytest.mark.parametrize(("robot", "joint"), JOINTS)
def test_every_movable_joint_has_limits_a_drive_and_a_speed_limit(robot: Robot, joint):
    prim = open_stage(robot.usd).GetPrimAtPath(f"/{robot.arm.name}/joints/{joint.name}")
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
    stiffness, damping = robot.arm.gains(joint)
    assert drive.GetStiffnessAttr().Get() == pytest.approx(stiffness / unit)
    assert drive.GetDampingAttr().Get() == pytest.approx(damping / unit)


@each_robot
def test_all_turning_joints_come_to_their_effort_limits_at_the_same_error(robot: Robot):
    turning = [joint for joint in robot.arm.joints if joint.axis is not None and not joint.prismatic]
    assert len({joint.effort for joint in turning}) > 1
    for index in (0, 1):
        errors = [joint.effort / robot.arm.gains(joint)[index] for joint in turning]
        assert errors == pytest.approx([errors[0]] * len(errors))
    assert max(robot.arm.gains(joint) for joint in turning) == (1000.0, 100.0)


@each_robot
def test_the_configuration_names_the_file_its_joints_and_their_limits(robot: Robot):
    cfg = robot.cfg
    assert isinstance(cfg.spawn, UsdFileCfg)
    assert cfg.spawn.usd_path == str(robot.usd)
    assert cfg.spawn.semantic_tags == [("class", "robot")]
    movable = {joint.name: joint for joint in robot.arm.joints if joint.axis is not None}
    assert cfg.arm_joints == tuple(name for name, joint in movable.items() if not joint.prismatic)
    assert cfg.finger_joints == tuple(name for name, joint in movable.items() if joint.prismatic)
    assert {joint.parent for joint in movable.values() if joint.prismatic} == {cfg.hand}
    for name, joint in movable.items():
        assert joint.lower <= cfg.init_state.joint_pos[name] <= joint.upper
        (drive,) = [
            drive
            for drive in cfg.actuators.values()
            if any(re.fullmatch(pattern, name) for pattern in drive.joint_names_expr)
        ]
        for limit, wanted in ((drive.joint_effort_limit, joint.effort), (drive.joint_velocity_limit, joint.velocity)):
            assert isinstance(limit, dict)
            assert limit[name] == wanted


@each_robot
def test_every_shape_is_seen_and_touched(robot: Robot):
    shapes = [prim for prim in open_stage(robot.usd).Traverse() if prim.IsA(UsdGeom.Gprim)]
    assert len(shapes) == sum(len(group) for group in robot.arm.shapes.values())
    for prim in shapes:
        assert prim.HasAPI(UsdPhysics.CollisionAPI)
        assert UsdGeom.Imageable(prim).ComputePurpose() == UsdGeom.Tokens.default_
    assert robot.arm.shapes[robot.cfg.hand]


@each_robot
def test_no_shape_reaches_the_mounting_surface_at_the_default_pose(robot: Robot):
    poses = forward_kinematics(robot.cfg.init_state.joint_pos, robot.arm.joints)
    for link, shapes in robot.arm.shapes.items():
        for shape in shapes:
            pose = poses[link] @ np.array([*shape.center, 1.0])
            if shape.kind == "box":
                reach = np.abs(poses[link][2, :3]) @ shape.size / 2
            else:
                radius, length = shape.size
                reach = radius + length / 2 * abs(poses[link][2, "xyz".index(shape.kind[-1])])
            assert pose[2] - reach > 0.004, link


@each_robot
def test_closed_fingers_meet_at_the_tool_centre_and_open_apart(robot: Robot):
    closed = forward_kinematics({}, robot.arm.joints)
    opened = forward_kinematics(dict.fromkeys(robot.cfg.finger_joints, 0.02), robot.arm.joints)
    to_hand = np.linalg.inv(closed[robot.cfg.hand])
    fingers = [joint for joint in robot.arm.joints if joint.prismatic]
    for joint, direction in zip(fingers, (1.0, -1.0), strict=True):
        pad = robot.arm.shapes[joint.child][-1]
        center = (to_hand @ closed[joint.child] @ [*pad.center, 1.0])[:3]
        assert direction * center[1] - pad.size[1] / 2 == pytest.approx(0.0, abs=1e-9)
        assert abs(center[2] - robot.cfg.tcp_offset) < pad.size[2] / 2
        moved = to_hand @ (opened[joint.child] - closed[joint.child])
        np.testing.assert_allclose(moved[:3, 3], [0.0, direction * 0.02, 0.0], atol=1e-12)
