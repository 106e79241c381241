# SPDX-License-Identifier: BSD-3-Clause
"""Analytic kinematics of the Panda against known poses and the laws every rigid transform obeys."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from isaaclab_pc.assets.franka import FRANKA_PANDA_PRIMITIVE_CFG
from tools.assets.author_franka import FRANKA
from tools.assets.kinematics import forward_kinematics, rotation

ARM = [joint for joint in FRANKA.joints if joint.axis is not None and not joint.prismatic]
arm_positions = st.tuples(*[st.floats(joint.lower, joint.upper) for joint in ARM]).map(
    lambda values: dict(zip([joint.name for joint in ARM], values, strict=True))
)


def tool_position(joint_pos: dict[str, float]) -> np.ndarray:
    hand = forward_kinematics(joint_pos, FRANKA.joints)["panda_hand"]
    return hand[:3, 3] + FRANKA_PANDA_PRIMITIVE_CFG.tcp_offset * hand[:3, 2]


def test_hand_of_the_stretched_arm_is_where_the_link_lengths_say():
    # Upright: offsets along x cancel but for 0.088 m, heights add up, and the hand points down from the last joint.
    hand = forward_kinematics({}, FRANKA.joints)["panda_hand"]
    np.testing.assert_allclose(hand[:3, 3], [0.088, 0.0, 0.333 + 0.316 + 0.384 - 0.107], atol=1e-12)
    np.testing.assert_allclose(hand[:3, 2], [0.0, 0.0, -1.0], atol=1e-12)


def test_the_first_joint_turns_everything_about_the_vertical():
    quarter = {**FRANKA_PANDA_PRIMITIVE_CFG.init_state.joint_pos, "panda_joint1": np.pi / 2}
    x, y, z = tool_position(FRANKA_PANDA_PRIMITIVE_CFG.init_state.joint_pos)
    np.testing.assert_allclose(tool_position(quarter), [-y, x, z], atol=1e-12)


@given(arm_positions)
def test_poses_are_rigid_and_lie_within_reach(joint_pos):
    poses = forward_kinematics(joint_pos, FRANKA.joints)
    assert set(poses) == {"panda_link0", *(joint.child for joint in FRANKA.joints)}
    for pose in poses.values():
        np.testing.assert_allclose(pose[:3, :3] @ pose[:3, :3].T, np.eye(3), atol=1e-9)
        assert np.linalg.det(pose[:3, :3]) == pytest.approx(1.0)
    hand = poses["panda_hand"]
    tool = tool_position(joint_pos)
    np.testing.assert_allclose(
        np.linalg.inv(hand) @ [*tool, 1.0], [0.0, 0.0, FRANKA_PANDA_PRIMITIVE_CFG.tcp_offset, 1.0], atol=1e-9
    )
    # The manufacturer's reach is 0.855 m from the shoulder to the wrist's flange centre.
    assert np.linalg.norm(tool - [0.0, 0.0, 0.333]) < 0.855 + 0.107 + FRANKA_PANDA_PRIMITIVE_CFG.tcp_offset + 0.088


@given(st.floats(-np.pi, np.pi), st.floats(-np.pi, np.pi), st.floats(-np.pi, np.pi))
def test_rotation_matches_scipys_fixed_axes(roll, pitch, yaw):
    wanted = Rotation.from_euler("xyz", [roll, pitch, yaw]).as_matrix()
    np.testing.assert_allclose(rotation((roll, pitch, yaw)), wanted, atol=1e-9)


def test_an_unknown_joint_is_refused():
    with pytest.raises(KeyError, match="panda_joint8"):
        forward_kinematics({"panda_joint8": 0.1}, FRANKA.joints)
