# SPDX-License-Identifier: BSD-3-Clause
"""Configuration of the Franka Emika Panda."""

from pathlib import Path

from isaaclab_pc.assets.arm import ARM_GAINS, ARMATURE, FINGER_GAINS, ArmCfg, position_drives, primitives_spawn

FRANKA_USD = Path(__file__).parent / "data" / "franka_panda.usda"
"""The Panda of primitives, which ``tools/assets/author_franka.py`` writes."""

_ARM = {f"panda_joint{index}": (87.0, 2.175) if index < 5 else (12.0, 2.61) for index in range(1, 8)}
_FINGERS = {f"panda_finger_joint{index}": (20.0, 0.2) for index in (1, 2)}

FRANKA_PANDA_PRIMITIVE_CFG = ArmCfg(
    spawn=primitives_spawn(FRANKA_USD),
    # Those of Isaac Lab's own Franka.
    init_state=ArmCfg.InitialStateCfg(
        joint_pos={
            "panda_joint1": 0.0,
            "panda_joint2": -0.569,
            "panda_joint3": 0.0,
            "panda_joint4": -2.810,
            "panda_joint5": 0.0,
            "panda_joint6": 3.037,
            "panda_joint7": 0.741,
            "panda_finger_joint1": 0.04,
            "panda_finger_joint2": 0.04,
        }
    ),
    actuators={
        "panda_arm": position_drives(_ARM, ARM_GAINS, ARMATURE),
        "panda_hand": position_drives(_FINGERS, FINGER_GAINS),
    },
    soft_joint_pos_limit_factor=1.0,
    arm_joints=tuple(_ARM),
    hand="panda_hand",
    finger_joints=tuple(_FINGERS),
    tcp_offset=0.1034,
)
"""The Panda of primitives, with gains for joint position control at 30 Hz."""
