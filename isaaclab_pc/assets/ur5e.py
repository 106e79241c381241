# SPDX-License-Identifier: BSD-3-Clause
"""Configuration of the UR5e with a parallel gripper."""

import math
from pathlib import Path

from isaaclab_pc.assets.arm import ARM_GAINS, ARMATURE, FINGER_GAINS, ArmCfg, position_drives, primitives_spawn

UR5E_USD = Path(__file__).parent / "data" / "ur5e.usda"
"""The UR5e of primitives, which ``tools/assets/author_ur5e.py`` writes."""

_ARM = {
    **dict.fromkeys(("shoulder_pan_joint", "shoulder_lift_joint", "elbow_joint"), (150.0, math.pi)),
    **dict.fromkeys(("wrist_1_joint", "wrist_2_joint", "wrist_3_joint"), (28.0, math.pi)),
}
# Half of the gripper's speed of 150 mm/s each, and the least force that can be set.
_FINGERS = {f"{side}_finger_joint": (20.0, 0.075) for side in ("left", "right")}

UR5E_GRIPPER_CFG = ArmCfg(
    spawn=primitives_spawn(UR5E_USD),
    # The gripper points down, its tool centre at (0.45, 0, 0.35) m.
    init_state=ArmCfg.InitialStateCfg(
        joint_pos={
            "shoulder_pan_joint": -0.3007,
            "shoulder_lift_joint": -1.7164,
            "elbow_joint": 1.6689,
            "wrist_1_joint": -1.5234,
            "wrist_2_joint": -1.5708,
            "wrist_3_joint": -1.8715,
            "left_finger_joint": 0.0425,
            "right_finger_joint": 0.0425,
        }
    ),
    actuators={"arm": position_drives(_ARM, ARM_GAINS, ARMATURE), "hand": position_drives(_FINGERS, FINGER_GAINS)},
    soft_joint_pos_limit_factor=1.0,
    arm_joints=tuple(_ARM),
    hand="hand",
    finger_joints=tuple(_FINGERS),
    # The tool centre is the middle of the closed finger pads.
    tcp_offset=0.152,
)
"""The UR5e of primitives, with gains for joint position control at 30 Hz.

With a command of 0.35 rad in 10 steps at 30 Hz on ovphysx, the joint moves 0.35 to 0.37 rad (the Panda's 0.36 to
0.37 rad), and the other joints at most 0.013 rad.
"""
