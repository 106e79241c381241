# SPDX-License-Identifier: BSD-3-Clause
"""The expert of the stack task."""

import torch

from isaaclab_pc.envs.expert import (
    Case,
    Pose,
    finger_opening,
    from_above,
    grasp_quat,
    is_closing_on,
    is_firm,
    raised,
    stay,
    unturned,
)
from isaaclab_pc.tasks.stack.stack_env import StackEnv

_CLEARANCE = 0.12
"""Height above cube A's centre from which the gripper comes down [m]."""

_OVER = 0.07
"""Height above its place from which cube A comes down [m]."""

_DROP = 0.001
"""Height above its place at which cube A is let go [m]; pressed against cube B, it would push cube B aside."""

_CLEAR = 0.01
"""Distance of each finger from cube A from which the gripper moves up [m]."""

_RETREAT = 0.1
"""Height above cube A up to which the gripper moves once it let go [m]."""


def _held(env: StackEnv) -> torch.Tensor:
    return env.grasped & is_firm(env, env.cube_a_pos, env.edge_a)


def _closing(env: StackEnv) -> torch.Tensor:
    return is_closing_on(env, env.cube_a_pos, env.edge_a) | env.grasped


def _away(env: StackEnv) -> Pose:
    # Not before the fingers are clear of the cube: they would take it along.
    is_clear = finger_opening(env) > env.edge_a / 2 + _CLEAR
    position, quat = stay(env)
    retreat = env.cube_a_pos[:, 2] + _RETREAT
    position[:, 2] = torch.where(is_clear, retreat, position[:, 2])
    return position, quat


def _place(env: StackEnv) -> Pose:
    # From where the cube is now: it may have slipped in the fingers, and it is the cube that has to arrive.
    tool_in_cube = env.tool_pos - env.cube_a_pos
    place = (env.stack_pos + tool_in_cube, unturned(env))
    return from_above(env, raised(place, _DROP), _OVER)


def _cube(env: StackEnv) -> Pose:
    return env.cube_a_pos, grasp_quat(env, env.cube_a.data.root_quat_w.torch)


CASES = (
    Case(name="let go", when=lambda env: env.stacked, target=_away, step_length=0.01),
    Case(name="carry to the place", when=_held, target=_place, closed=True, step_length=0.02),
    Case(name="close", when=_closing, target=_cube, closed=True, step_length=0.02),
    # Slowly: on Newton, a gripper that arrives with a swing grasps worse.
    Case(name="come from above", target=lambda env: from_above(env, _cube(env), _CLEARANCE), step_length=0.015),
)
