# SPDX-License-Identifier: BSD-3-Clause
"""Configurations of the Franka Emika Panda."""

from __future__ import annotations

import copy
import urllib.error
import urllib.request
from dataclasses import fields
from pathlib import Path
from typing import cast

import isaaclab.sim as sim_utils
from isaaclab.utils import replace
from isaaclab_assets.robots.franka import FRANKA_PANDA_CFG

from isaaclab_pc.assets.arm import ArmCfg, drives, primitives_spawn
from isaaclab_pc.assets.author_franka import FRANKA, FRANKA_DEFAULT_JOINT_POS, FRANKA_TCP_OFFSET, FRANKA_USD
from isaaclab_pc.errors import ConfigError

__all__ = ["FRANKA_PANDA_PRIMITIVE_CFG", "franka_nucleus_cfg"]

_ASSET_SERVER_TIMEOUT = 5.0
"""Time that the asset server has to answer [s]."""

_ARM = [joint for joint in FRANKA.joints if joint.axis is not None and not joint.prismatic]
_FINGERS = [joint for joint in FRANKA.joints if joint.prismatic]

FRANKA_PANDA_PRIMITIVE_CFG = ArmCfg(
    spawn=primitives_spawn(FRANKA_USD),
    init_state=ArmCfg.InitialStateCfg(joint_pos=dict(FRANKA_DEFAULT_JOINT_POS)),
    actuators={"panda_arm": drives(FRANKA, _ARM), "panda_hand": drives(FRANKA, _FINGERS)},
    soft_joint_pos_limit_factor=1.0,
    arm_joints=tuple(joint.name for joint in _ARM),
    hand="panda_hand",
    finger_joints=tuple(joint.name for joint in _FINGERS),
    tcp_offset=FRANKA_TCP_OFFSET,
)
"""The Panda of primitives that :mod:`.author_franka` writes, with gains for joint position control at 30 Hz."""


def franka_nucleus_cfg(backend: str) -> ArmCfg:
    """Return Isaac Lab's own Panda of meshes, with the control gains of the one made of primitives.

    Args:
        backend: ``ovphysx``, ``isaacsim_physx`` or ``newton_mjwarp``: the asset holds one variant for each solver.

    Returns:
        A configuration that lacks only its prim path.

    Raises:
        ConfigError: Isaac Lab's asset server does not answer.
    """
    theirs = copy.deepcopy(FRANKA_PANDA_CFG)
    spawn = cast(sim_utils.UsdFileCfg, theirs.spawn)
    if not _is_reachable(spawn.usd_path):
        raise ConfigError(
            f"robot=franka_nucleus: {spawn.usd_path} did not answer within {_ASSET_SERVER_TIMEOUT:.0f} s. "
            "Check the network, or use robot=franka, which needs no download."
        )

    ours = cast(sim_utils.UsdFileCfg, FRANKA_PANDA_PRIMITIVE_CFG.spawn)
    spawn.variants = {**cast(dict, spawn.variants), "Physics": "mujoco" if backend == "newton_mjwarp" else "physx"}
    spawn.rigid_props = copy.deepcopy(ours.rigid_props)
    spawn.articulation_props = copy.deepcopy(ours.articulation_props)
    spawn.semantic_tags = copy.deepcopy(ours.semantic_tags)

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
