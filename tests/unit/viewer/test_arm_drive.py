# SPDX-License-Identifier: BSD-3-Clause
"""Sliders and keys become actions of an arm."""

from types import SimpleNamespace

import pytest
import torch

from isaaclab_pc.viewer.arm_drive import ArmDrive, Motion, motions_of

JOINTS = ("elbow", "wrist")


def task(**fields):
    scene = SimpleNamespace(robot=SimpleNamespace(arm_joints=JOINTS))
    values = {"action": "tool_delta", "gripper": True, "tool_delta": 0.03, "tool_rotation": 0.1, "joint_delta": 0.07}
    return SimpleNamespace(scene=scene, **(values | fields))


@pytest.fixture
def drive():
    return ArmDrive([Motion("x", ""), Motion("gripper", "", start=1.0, stays=True)], key_steps=2)


def test_a_slider_is_asked_for_until_it_is_moved_or_stopped(drive):
    drive.values[0] = 0.5
    assert [drive.next_action() for _ in range(3)] == [[0.5, 1.0]] * 3
    drive.press(1, -1.0)
    drive.stop()
    assert drive.next_action() == [0.0, -1.0], "the gripper stays closed"


def test_a_key_moves_for_a_while_and_again_while_it_is_held(drive):
    drive.values[0] = 0.25
    drive.press(0, -1.0)
    assert [drive.next_action()[0] for _ in range(3)] == [-1.0, -1.0, 0.25]
    drive.press(0, 1.0)
    assert drive.next_action()[0] == 1.0
    drive.press(0, 1.0)
    assert [drive.next_action()[0] for _ in range(3)] == [1.0, 1.0, 0.25]
    drive.press(0, 1.0)
    drive.stop()
    assert drive.next_action()[0] == 0.0


def test_only_the_chosen_environment_is_driven(drive):
    drive.values = [0.5, -1.0]
    drive.env = 2
    assert torch.equal(drive.next_actions(3, "cpu"), torch.tensor([[0.0, 1.0], [0.0, 1.0], [0.5, -1.0]]))


@pytest.mark.parametrize(
    ("fields", "names", "starts"),
    [
        ({}, ["x", "y", "z", "gripper"], [0.0, 0.0, 0.0, 1.0]),
        ({"action": "tool_pose", "gripper": False}, ["x", "y", "z", "about x", "about y", "about z"], [0.0] * 6),
        ({"action": "joint_delta"}, [*JOINTS, "gripper"], [0.0, 0.0, 1.0]),
        ({"action": "joint_position", "gripper": False}, [*JOINTS], [0.5, -0.25]),
    ],
)
def test_the_motions_are_those_of_the_tasks_action(fields, names, starts):
    motions = motions_of(task(**fields), [0.5, -0.25])
    assert [motion.name for motion in motions] == names
    assert [motion.start for motion in motions] == starts
    keys = [key for motion in motions for key in motion.keys or ()]
    assert len(set(keys)) == len(keys)
    assert not set(keys) & set("WASDQEX"), "viser's camera has these, and Stop"
