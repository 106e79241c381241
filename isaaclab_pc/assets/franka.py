# SPDX-License-Identifier: BSD-3-Clause
"""Configurations of the Franka Emika Panda."""

from __future__ import annotations

import copy
import urllib.error
import urllib.request
from pathlib import Path
from typing import cast

import isaaclab.sim as sim_utils
from isaaclab.actuators import ImplicitActuatorCfg
from isaaclab.assets import ArticulationCfg
from isaaclab_assets.robots.franka import FRANKA_PANDA_CFG
from isaaclab_newton.sim.schemas import MujocoRigidBodyCfg, NewtonArticulationCfg
from isaaclab_physx.sim.schemas import PhysxArticulationCfg, PhysxRigidBodyCfg

from isaaclab_pc.assets.author import ARM_GAINS, FINGER_GAINS, FRANKA_USD
from isaaclab_pc.assets.kinematics import DEFAULT_JOINT_POS, JOINTS, TCP_OFFSET
from isaaclab_pc.errors import ConfigError

__all__ = ["FRANKA_PANDA_PRIMITIVE_CFG", "TCP_OFFSET", "franka_nucleus_cfg"]

_ARMATURE = 0.1
"""Inertia of the motors as the joints feel it [kg*m^2; kg for the fingers]: the value of MuJoCo Menagerie's Panda."""

_ASSET_SERVER_TIMEOUT = 5.0
"""How long the asset server may take to say that it has the robot [s]."""

_ARM = [joint for joint in JOINTS if joint.axis is not None and not joint.prismatic]
_FINGER = next(joint for joint in JOINTS if joint.prismatic)

FRANKA_PANDA_PRIMITIVE_CFG = ArticulationCfg(
    spawn=sim_utils.UsdFileCfg(
        usd_path=str(FRANKA_USD),
        # Gravity is off on the robot, as in Isaac Lab's high-gain Franka: PhysX by flag, Newton by compensation.
        rigid_props=[
            PhysxRigidBodyCfg(disable_gravity=True, max_depenetration_velocity=5.0),
            MujocoRigidBodyCfg(gravcomp=1.0),
        ],
        articulation_props=[
            PhysxArticulationCfg(
                enabled_self_collisions=False, solver_position_iteration_count=8, solver_velocity_iteration_count=1
            ),
            NewtonArticulationCfg(self_collision_enabled=False),
        ],
        semantic_tags=[("class", "robot")],
    ),
    init_state=ArticulationCfg.InitialStateCfg(joint_pos=dict(DEFAULT_JOINT_POS)),
    actuators={
        "panda_arm": ImplicitActuatorCfg(
            joint_names_expr=["panda_joint[1-7]"],
            joint_effort_limit={joint.name: joint.effort for joint in _ARM},
            joint_velocity_limit={joint.name: joint.velocity for joint in _ARM},
            stiffness=ARM_GAINS[0],
            damping=ARM_GAINS[1],
            # The motors' inertia seen through the gears; without it Newton's explicit damping shakes the light
            # wrist.
            armature=_ARMATURE,
        ),
        "panda_hand": ImplicitActuatorCfg(
            joint_names_expr=["panda_finger_joint.*"],
            joint_effort_limit=_FINGER.effort,
            joint_velocity_limit=_FINGER.velocity,
            stiffness=FINGER_GAINS[0],
            damping=FINGER_GAINS[1],
            armature=_ARMATURE,
        ),
    },
    soft_joint_pos_limit_factor=1.0,
)
"""The Panda of primitives that :mod:`.author` writes, with gains for joint position control at 30 Hz."""


def franka_nucleus_cfg(backend: str) -> ArticulationCfg:
    """Return Isaac Lab's own Panda of meshes, with the control gains of the one made of primitives.

    Args:
        backend: ``ovphysx``, ``isaacsim_physx`` or ``newton_mjwarp``: the asset holds one variant for each solver.

    Returns:
        A configuration that lacks only its prim path.

    Raises:
        ConfigError: Isaac Lab's asset server does not answer.
    """
    robot = copy.deepcopy(FRANKA_PANDA_CFG)
    spawn = cast(sim_utils.UsdFileCfg, robot.spawn)
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
    robot.actuators["panda_arm"].stiffness, robot.actuators["panda_arm"].damping = ARM_GAINS
    return robot


def _is_reachable(path: str) -> bool:
    """Tell within seconds whether a file is there; Isaac Lab's own check takes a minute to give up."""
    if not path.startswith(("http://", "https://")):
        return Path(path).is_file()
    try:
        with urllib.request.urlopen(urllib.request.Request(path, method="HEAD"), timeout=_ASSET_SERVER_TIMEOUT):
            return True
    except (urllib.error.URLError, TimeoutError):
        return False
