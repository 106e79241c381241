# SPDX-License-Identifier: BSD-3-Clause
"""Configurations of the Franka Emika Panda."""

from __future__ import annotations

import isaaclab.sim as sim_utils
from isaaclab.actuators import ImplicitActuatorCfg
from isaaclab.assets import ArticulationCfg
from isaaclab_newton.sim.schemas import MujocoRigidBodyCfg, NewtonArticulationCfg
from isaaclab_physx.sim.schemas import PhysxArticulationCfg, PhysxRigidBodyCfg

from isaaclab_pc.assets.author import ARM_GAINS, ARMATURE, FINGER_GAINS, FRANKA_USD
from isaaclab_pc.assets.kinematics import DEFAULT_JOINT_POS, JOINTS, TCP_OFFSET

__all__ = ["FRANKA_PANDA_PRIMITIVE_CFG", "TCP_OFFSET"]

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
            armature=ARMATURE,
        ),
        "panda_hand": ImplicitActuatorCfg(
            joint_names_expr=["panda_finger_joint.*"],
            joint_effort_limit=_FINGER.effort,
            joint_velocity_limit=_FINGER.velocity,
            stiffness=FINGER_GAINS[0],
            damping=FINGER_GAINS[1],
            armature=ARMATURE,
        ),
    },
    soft_joint_pos_limit_factor=1.0,
)
"""The Panda of primitives that :mod:`.author` writes, with gains for joint position control at 30 Hz."""
