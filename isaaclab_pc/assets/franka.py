# SPDX-License-Identifier: BSD-3-Clause
"""Configurations of the Franka Emika Panda."""

import copy
import urllib.error
import urllib.request
from dataclasses import fields
from pathlib import Path
from typing import Any

from isaaclab.utils import replace
from isaaclab_assets.robots.franka import FRANKA_PANDA_CFG

from isaaclab_pc.assets.arm import ARM_GAINS, ARMATURE, FINGER_GAINS, ArmCfg, position_drives, primitives_spawn
from isaaclab_pc.errors import ConfigError

_ASSET_SERVER_TIMEOUT = 5.0
"""Time that the asset server has to answer [s]."""

FRANKA_USD = Path(__file__).parent / "data" / "franka_panda.usda"
"""The Panda of primitives, which ``tools/assets/author_franka.py`` writes."""

FRANKA_TCP_OFFSET = 0.1034
"""Distance of the tool centre point from the ``panda_hand`` frame along its z axis [m]."""

FRANKA_DEFAULT_JOINT_POS: dict[str, float] = {
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
"""Joint positions after a reset, those of Isaac Lab's own Franka [rad and m]."""

_ARM = {f"panda_joint{index}": (87.0, 2.175) if index < 5 else (12.0, 2.61) for index in range(1, 8)}
_FINGERS = {f"panda_finger_joint{index}": (20.0, 0.2) for index in (1, 2)}

FRANKA_PANDA_PRIMITIVE_CFG = ArmCfg(
    spawn=primitives_spawn(FRANKA_USD),
    init_state=ArmCfg.InitialStateCfg(joint_pos=dict(FRANKA_DEFAULT_JOINT_POS)),
    actuators={
        "panda_arm": position_drives(_ARM, ARM_GAINS, ARMATURE),
        "panda_hand": position_drives(_FINGERS, FINGER_GAINS),
    },
    soft_joint_pos_limit_factor=1.0,
    arm_joints=tuple(_ARM),
    hand="panda_hand",
    finger_joints=tuple(_FINGERS),
    tcp_offset=FRANKA_TCP_OFFSET,
)
"""The Panda of primitives, with gains for joint position control at 30 Hz."""


def franka_nucleus_cfg(backend: str) -> ArmCfg:
    """Return Isaac Lab's own Panda of meshes, with the control gains of the one of primitives and no prim path.

    The asset holds one variant for each solver, which ``backend`` chooses.

    Raises:
        ConfigError: Isaac Lab's asset server does not answer.
    """
    theirs = copy.deepcopy(FRANKA_PANDA_CFG)
    spawn: Any = theirs.spawn
    if not _is_reachable(spawn.usd_path):
        raise ConfigError(
            f"robot=franka_nucleus: {spawn.usd_path} did not answer within {_ASSET_SERVER_TIMEOUT:.0f} s. "
            "Check the network, or use robot=franka, which needs no download."
        )

    spawn.variants = {**spawn.variants, "Physics": "mujoco" if backend == "newton_mjwarp" else "physx"}
    for name in ("rigid_props", "articulation_props", "semantic_tags"):
        setattr(spawn, name, copy.deepcopy(getattr(FRANKA_PANDA_PRIMITIVE_CFG.spawn, name)))

    arm = FRANKA_PANDA_PRIMITIVE_CFG.actuators["panda_arm"]
    theirs.actuators["panda_arm"].stiffness = copy.deepcopy(arm.stiffness)
    theirs.actuators["panda_arm"].damping = copy.deepcopy(arm.damping)
    return replace(FRANKA_PANDA_PRIMITIVE_CFG, **{field.name: getattr(theirs, field.name) for field in fields(theirs)})


def _is_reachable(path: str) -> bool:
    """Tell within seconds whether a file is there; Isaac Lab's own check takes a minute to fail."""
    if not path.startswith(("http://", "https://")):
        return Path(path).is_file()
    try:
        with urllib.request.urlopen(urllib.request.Request(path, method="HEAD"), timeout=_ASSET_SERVER_TIMEOUT):
            return True
    except (urllib.error.URLError, TimeoutError):
        return False
