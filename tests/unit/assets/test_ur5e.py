# SPDX-License-Identifier: BSD-3-Clause
"""The UR5e's joint frames and mass properties against the manufacturer's tables and against ``ur_description``."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isaaclab_pc.assets.ur5e import UR5E_GRIPPER_CFG
from tools.assets.author_ur5e import UR5E, UR5E_DH
from tools.assets.kinematics import forward_kinematics

ARM = [joint.name for joint in UR5E.joints if joint.axis is not None and not joint.prismatic]
positions = st.tuples(*[st.floats(-row.limit, row.limit) for row in UR5E_DH])


def denavit_hartenberg(joint_pos: tuple[float, ...]) -> np.ndarray:
    """Return the flange's pose by the textbook's product; the base's axes are those of ROS, half a turn from the DH."""
    pose = np.diag([-1.0, -1.0, 1.0, 1.0])
    for row, theta in zip(UR5E_DH, joint_pos, strict=True):
        ct, st, ca, sa = np.cos(theta), np.sin(theta), np.cos(row.alpha), np.sin(row.alpha)
        pose = pose @ [
            [ct, -st * ca, st * sa, row.a * ct],
            [st, ct * ca, -ct * sa, row.a * st],
            [0.0, sa, ca, row.d],
            [0.0, 0.0, 0.0, 1.0],
        ]
    return pose


@given(positions)
def test_the_flange_is_where_the_denavit_hartenberg_model_puts_it(joint_pos):
    hand = forward_kinematics(dict(zip(ARM, joint_pos, strict=True)), UR5E.joints)["hand"]
    np.testing.assert_allclose(hand, denavit_hartenberg(joint_pos), atol=1e-9)


def test_the_default_pose_points_the_gripper_down_above_the_table():
    hand = forward_kinematics(UR5E_GRIPPER_CFG.init_state.joint_pos, UR5E.joints)["hand"]
    np.testing.assert_allclose(hand[:3, :3], np.diag([1.0, -1.0, -1.0]), atol=2e-4)
    np.testing.assert_allclose(hand[:3, 3] + UR5E_GRIPPER_CFG.tcp_offset * hand[:3, 2], [0.45, 0.0, 0.35], atol=2e-4)


@pytest.mark.parametrize(
    ("link", "com"),
    [
        ("shoulder_link", (0.0, -0.00193, -0.02561)),
        ("upper_arm_link", (-0.2125, 0.0, 0.11336)),
        ("forearm_link", (-0.2422, 0.0, 0.0265)),
        ("wrist_1_link", (0.0, -0.01634, -0.0018)),
        ("wrist_2_link", (0.0, 0.01634, -0.0018)),
        ("wrist_3_link", (0.0, 0.0, -0.001159)),
    ],
)
def test_centres_of_mass_are_those_of_ur_description(link: str, com: tuple[float, float, float]):
    np.testing.assert_allclose(UR5E.inertials[link].com, com, atol=1e-9)
