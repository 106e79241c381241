# SPDX-License-Identifier: BSD-3-Clause
"""The expert of the lift task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from isaaclab_pc.envs.expert import Case, Pose, from_above, grasp_quat, is_closing_on, is_firm, unturned

if TYPE_CHECKING:
    from isaaclab_pc.tasks.lift.lift_env import LiftEnv

_CLEARANCE = 0.1
"""Height above the cube's centre from which the gripper comes down [m]."""


def _closing(env: LiftEnv) -> torch.Tensor:
    return is_closing_on(env, env.cube_pos, env.cube_edge) | env.grasped


def _held(env: LiftEnv) -> torch.Tensor:
    return env.grasped & is_firm(env, env.cube_pos, env.cube_edge)


def _goal(env: LiftEnv) -> Pose:
    # From where the cube is now: it may have slipped in the fingers, and it is the cube that has to arrive.
    return env.goal_pos - env.cube_pos + env.tool_pos, unturned(env)


def _cube(env: LiftEnv) -> Pose:
    return env.cube_pos, grasp_quat(env, env.cube_quat)


def _above_cube(env: LiftEnv) -> Pose:
    return from_above(env, _cube(env), _CLEARANCE)


CASES = (
    Case(name="carry to the goal", when=_held, target=_goal, closed=True, gain=0.5),
    Case(name="close", when=_closing, target=_cube, closed=True),
    # Slowly: on Newton, a gripper that arrives with a swing grasps worse.
    Case(name="come from above", target=_above_cube, step_length=0.015),
)
