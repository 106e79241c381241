# SPDX-License-Identifier: BSD-3-Clause
"""Configurations of imported robots, from the files that ``scripts/robot.py`` writes and users edit."""

from pathlib import Path
from typing import Any

import yaml

from isaaclab_pc.assets.arm import ARM_GAINS, ARMATURE, FINGER_GAINS, ArmCfg, position_drives, primitives_spawn
from isaaclab_pc.assets.robots import ROBOT_FILE
from isaaclab_pc.errors import ConfigError, describe_error


def imported_cfg(folder: Path) -> ArmCfg:
    """Return the configuration of an imported robot, without its prim path.

    Raises:
        ConfigError: Its file cannot be read, or lacks a field.
    """
    file = folder / ROBOT_FILE
    try:
        robot: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
        arm, fingers = (
            {name: (float(joint["effort"]), float(joint["velocity"])) for name, joint in robot[part].items()}
            for part in ("arm_joints", "finger_joints")
        )
        home = {
            name: float(one["home"]) for part in ("arm_joints", "finger_joints") for name, one in robot[part].items()
        }
        return ArmCfg(
            spawn=primitives_spawn((folder / robot["usd"]).resolve()),
            init_state=ArmCfg.InitialStateCfg(joint_pos=home),
            actuators={
                "arm": position_drives(arm, robot.get("arm_gains", ARM_GAINS), ARMATURE),
                "hand": position_drives(fingers, robot.get("finger_gains", FINGER_GAINS)),
            },
            soft_joint_pos_limit_factor=1.0,
            arm_joints=tuple(arm),
            hand=robot["hand"],
            finger_joints=tuple(fingers),
            tcp_offset=float(robot["tcp_offset"]),
        )
    except (OSError, AttributeError, KeyError, TypeError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(
            f"{file} cannot be used, {describe_error(error)}: mend it, or import the robot anew."
        ) from None
