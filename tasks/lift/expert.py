# SPDX-License-Identifier: BSD-3-Clause
"""The expert of the lift task."""

import torch

from isaaclab_pc.envs.expert import Case, Pose, from_above, grasp_quat, is_closing_on, is_firm, unturned
from isaaclab_pc.tasks.lift.lift_env import LiftEnv
from isaaclab_pc.tasks.lift.lifting_env import LiftingEnv
from isaaclab_pc.tensors.constant_tensor import constant_tensor

_CLEARANCE = 0.1
"""Height above the cube's centre from which the gripper comes down [m]."""

_NEAREST = 0.25
"""Distance along x below which the tool is beside or behind the base [m]."""

_UNDER_TABLE = -0.02
"""Height below which the tool is under the table's top [m]."""

_IN_FRONT = (0.4, 0.0, 0.4)
"""Where an arm that went astray comes back to, in the environment frame [m]."""


def _closing(env: LiftEnv) -> torch.Tensor:
    return is_closing_on(env, env.cube_pos, env.cube_edge) | env.grasped


def _held(env: LiftEnv) -> torch.Tensor:
    return env.grasped & is_firm(env, env.cube_pos, env.cube_edge)


def to_goal(env: LiftingEnv) -> Pose:
    """Return where the tool brings the object to its goal."""
    # From where the object is now: it may have slipped in the fingers, and it is the object that has to arrive.
    return env.goal_pos - env.object_pos + env.tool_pos, unturned(env)


def _cube(env: LiftEnv) -> Pose:
    return env.cube_pos, grasp_quat(env, env.cube_quat)


def is_astray(env: LiftingEnv) -> torch.Tensor:
    """Tell whether the tool is beside or behind the base or under the table, (N,), bool."""
    return (env.tool_pos[:, 0] < _NEAREST) | (env.tool_pos[:, 2] < _UNDER_TABLE)


def in_front(env: LiftingEnv) -> Pose:
    """Return where an arm that went astray comes back to."""
    return constant_tensor(_IN_FRONT, env.tool_pos.device).expand_as(env.tool_pos), unturned(env)


CASES = (
    Case(name="carry to the goal", when=_held, target=to_goal, closed=True, gain=0.5),
    Case(name="close", when=_closing, target=_cube, closed=True),
    Case(name="come back in front", when=is_astray, target=in_front),
    # Slowly: on Newton, a gripper that arrives with a swing grasps worse.
    Case(name="come from above", target=lambda env: from_above(env, _cube(env), _CLEARANCE), step_length=0.015),
)
