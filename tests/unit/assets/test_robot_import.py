# SPDX-License-Identifier: BSD-3-Clause
"""Arms of anybody: what is found in a description, what is written of it, and what is refused."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from matplotlib.image import imread
from pxr import Usd, UsdPhysics

from isaaclab_pc.assets.robot_import.description import Joint, read_description
from isaaclab_pc.assets.robot_import.parts import Parts, find_parts
from isaaclab_pc.assets.robots import find_robot
from isaaclab_pc.commands.robot import main
from isaaclab_pc.errors import ConfigError
from tests.small_arm import FINGERS, small_arm, write_small_arm

GRIPPER = """<mujoco><compiler angle="radian"/><worldbody><body name="palm">
  <geom type="box" size="0.03 0.03 0.02" mass="0.4"/>{fingers}</body></worldbody></mujoco>"""

LINKAGE = """<body name="{side}_knuckle" pos="{x} 0 0.05">
  <joint name="{side}_driver" axis="0 {axis} 0" range="0 0.5"/><geom type="box" size="0.005 0.005 0.01" mass="0.02"/>
  <body name="{side}_finger" pos="0 0 0.06"><joint name="{side}_passive" axis="0 1 0" range="-1 1"/>
    <geom type="box" size="0.005 0.01 0.02" pos="0 0 0.03" mass="0.02"/></body></body>"""


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def tool_pose(parts: Parts, positions: dict[str, float]) -> np.ndarray:
    pose = np.eye(4)
    for joint in parts.arm:
        pose = pose @ joint.pose(positions[joint.name])
    offset = np.eye(4)
    offset[2, 3] = parts.tcp_offset
    return pose @ parts.in_hand @ offset


def finger_place(finger: Joint, position: float) -> np.ndarray:
    return finger.pose(position)[:3, 3]


def test_arm_hand_fingers_and_tool_are_found_whatever_the_hands_axes(tmp_path: Path) -> None:
    robot = read_description(write_small_arm(tmp_path))
    parts = find_parts(robot)
    assert [joint.name for joint in parts.arm] == [f"joint{index}" for index in range(1, 7)]
    assert robot.names[parts.hand] == "link6"
    assert {finger.name: finger.upper for finger in parts.fingers} == {"left": 0.04, "right": 0.04}
    for finger in parts.fingers:
        way = finger_place(finger, 0.04) - finger_place(finger, 0.0)
        np.testing.assert_allclose(np.abs(way), [0.0, 0.04, 0.0], atol=1e-6)
        # Opening leads it away from the middle.
        assert abs(finger_place(finger, 0.04)[1]) > abs(finger_place(finger, 0.0)[1])
    # The flange's own length, the finger's place in the hand, its end, and half of what grasps.
    assert parts.tcp_offset == pytest.approx(0.05 + 0.08 + 0.06 - 0.01, abs=1e-4)

    tool = tool_pose(parts, parts.home)
    np.testing.assert_allclose(tool[:3, 3], [0.45, 0.0, 0.35], atol=2e-3)
    np.testing.assert_allclose(tool[:3, :3], np.diag([1.0, -1.0, -1.0]), atol=5e-3)


def test_fingers_of_a_linkage_become_fingers_that_slide(tmp_path: Path) -> None:
    sides = {"left": (0.03, 1), "right": (-0.03, -1)}
    fingers = "".join(LINKAGE.format(side=side, x=x, axis=axis) for side, (x, axis) in sides.items())
    gripper = tmp_path / "gripper.xml"
    gripper.write_text(GRIPPER.format(fingers=fingers), encoding="utf-8")
    arm = write_small_arm(tmp_path, fingers=())
    parts = find_parts(read_description(arm, gripper, "link6"))
    assert {finger.name for finger in parts.fingers} == {"left_driver", "right_driver"}
    # Where the knuckle's end goes sideways, while the finger stays parallel.
    assert [finger.upper for finger in parts.fingers] == pytest.approx([0.06 * np.sin(0.5)] * 2, abs=1e-5)
    assert len(parts.unmoved) == 2

    with pytest.raises(ConfigError, match=r"^flange=None: .*hand"):
        read_description(arm, gripper)


ACTUATED = """<mujoco><default><default class="strong"><general forcerange="-12 12"/></default></default>
  <worldbody><body name="link">{bodies}<geom type="box" size="0.1 0.1 0.1" mass="1"/></body></worldbody>
  <actuator>
    <motor joint="motor" ctrlrange="-3 4" gear="2"/>
    <general joint="servo" class="strong" biastype="affine" ctrlrange="-3 3"/>
    <velocity joint="servo" ctrlrange="-3 3"/>
    <position joint="unlimited" ctrlrange="-3 3"/>
  </actuator></mujoco>"""


def test_efforts_of_mjcf_are_those_of_its_actuators(tmp_path: Path) -> None:
    names = ("motor", "servo", "unlimited", "bare")
    body = '<body name="{0}_link"><joint name="{0}" axis="0 0 1"/><geom type="box" size="0.1 0.1 0.1" mass="1"/></body>'
    file = tmp_path / "arm.xml"
    file.write_text(ACTUATED.format(bodies="".join(map(body.format, names))), encoding="utf-8")
    efforts = {joint.name: joint.effort for joint in read_description(file).joints}
    assert efforts == {"motor": 8.0, "servo": 12.0, "unlimited": 0.0, "bare": 0.0}


def test_the_files_are_a_robot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(write_small_arm(tmp_path)), "name=my_arm"]) == 0
    assert "robot=my_arm" in capsys.readouterr().out
    picture = imread("robots/my_arm/robot.png")
    # Of the arm, not an empty page.
    assert (picture[..., :3].min(axis=2) < 0.9).mean() > 0.02
    values = yaml.safe_load(Path("robots/my_arm/robot.yaml").read_text(encoding="utf-8"))
    assert values["arm_joints"]["joint4"]["effort"] == 10.0
    assert values["finger_joints"]["left"] == {"effort": 30.0, "velocity": 0.1, "home": 0.04}

    stage: Any = Usd.Stage.Open("robots/my_arm/robot.usd")
    root = stage.GetDefaultPrim()
    assert root.HasAPI(UsdPhysics.ArticulationRootAPI)
    joints: list[Any] = [UsdPhysics.Joint(prim) for prim in stage.Traverse() if prim.IsA(UsdPhysics.Joint)]
    anchored = [joint.GetBody1Rel().GetTargets() for joint in joints if not joint.GetBody0Rel().GetTargets()]
    assert anchored == [["/robot/base"]]
    moving = [joint.GetPrim() for joint in joints if joint.GetBody0Rel().GetTargets()]
    assert len(moving) == 8
    assert all(any("DriveAPI" in schema for schema in prim.GetAppliedSchemas()) for prim in moving)

    for name in ("my_arm", str(tmp_path / "robots" / "my_arm")):
        cfg = find_robot(name)()
        assert cfg.arm_joints == tuple(f"joint{index}" for index in range(1, 7))
        assert cfg.tcp_offset == values["tcp_offset"]
        assert cfg.actuators["arm"].stiffness["joint4"] == cfg.actuators["arm"].stiffness["joint1"] / 4

    assert main([f"file={tmp_path / 'small.urdf'}", "name=my_arm"]) == 2
    Path("robots/my_arm/robot.yaml").write_text("usd: robot.usd", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"robot\.yaml.*arm_joints"):
        find_robot("my_arm")()


UNLIMITED = FINGERS[0].replace('<limit lower="0.01" upper="0.05" effort="30" velocity="0.1"/>', "")
MESH = '<collision><geometry><mesh filename="{}"/></geometry></collision></link>'
BROKEN = {
    "no gripper": (small_arm(fingers=()), "link6 carries no joint.*hand=.*gripper="),
    "one finger": (small_arm(fingers=(FINGERS[0], FINGERS[1].replace("prismatic", "fixed"))), "carries no joint"),
    "no limits": (small_arm(fingers=(UNLIMITED, FINGERS[1])), "joint left slides without limits"),
    "no mesh": (small_arm().replace("</link>", MESH.format("package://any/gone.stl"), 1), "package://any/gone.stl"),
    "no effort": (small_arm().replace('effort="40.0"', 'effort="0"'), "joint1.*effort="),
    "no mass": (small_arm().replace('<mass value="0.5"/>', '<mass value="0"/>'), "link link1 .*mass"),
    "no xml": ("solid", "cannot be read"),
    "too short": (small_arm().replace('xyz="0 0 0.35"', 'xyz="0 0 0.05"'), "no posture"),
}


@pytest.mark.parametrize(("text", "message"), BROKEN.values(), ids=BROKEN)
def test_what_cannot_be_used_is_refused_in_one_line_and_leaves_nothing(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "broken.urdf"
    file.write_text(text, encoding="utf-8")
    assert main([f"file={file}"]) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert re.search(message, error), error
    assert not list(Path("robots").glob("*"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "file="),
        (["file=gone.urdf"], "gone.urdf"),
        (["file=small.urdf", "name=ur5e"], "name=ur5e"),
        (["file=small.urdf", "name=../x"], "name="),
        (["file=small.urdf", "hand=hnad"], "hand=hnad.*hand"),
        (["file=small.urdf", "effort=many"], "effort=many"),
    ],
)
def test_wrong_settings_are_refused(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_small_arm(tmp_path)
    assert main(arguments) == 2
    assert re.search(message, capsys.readouterr().err)


def test_a_robot_that_is_not_there_is_refused_with_near_names() -> None:
    with pytest.raises(ConfigError, match=r"^robot=my_pnada .*scripts/robot\.py"):
        find_robot("my_pnada")
