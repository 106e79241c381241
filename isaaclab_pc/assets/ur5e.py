# SPDX-License-Identifier: BSD-3-Clause
"""Configuration of the UR5e with a parallel gripper."""

from __future__ import annotations

from isaaclab_pc.assets.arm import ArmCfg, drives, primitives_spawn
from isaaclab_pc.assets.author_ur5e import UR5E, UR5E_DEFAULT_JOINT_POS, UR5E_TCP_OFFSET, UR5E_USD

__all__ = ["UR5E_GRIPPER_CFG"]

_ARM = [joint for joint in UR5E.joints if joint.axis is not None and not joint.prismatic]
_FINGERS = [joint for joint in UR5E.joints if joint.prismatic]

UR5E_GRIPPER_CFG = ArmCfg(
    spawn=primitives_spawn(UR5E_USD),
    init_state=ArmCfg.InitialStateCfg(joint_pos=dict(UR5E_DEFAULT_JOINT_POS)),
    actuators={"arm": drives(UR5E, _ARM), "hand": drives(UR5E, _FINGERS)},
    soft_joint_pos_limit_factor=1.0,
    arm_joints=tuple(joint.name for joint in _ARM),
    hand="hand",
    finger_joints=tuple(joint.name for joint in _FINGERS),
    tcp_offset=UR5E_TCP_OFFSET,
)
"""The UR5e of primitives that :mod:`.author_ur5e` writes, with gains for joint position control at 30 Hz."""
