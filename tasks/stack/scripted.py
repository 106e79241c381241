# SPDX-License-Identifier: BSD-3-Clause
"""A scripted pick and place for the stack task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from isaaclab_pc.envs.scripted import Phase, Pose, downward, raised, unturned

if TYPE_CHECKING:
    from isaaclab_pc.tasks.stack.stack_env import StackEnv

_CLEARANCE = 0.12
"""Height above cube A's centre at which the gripper lines up [m]."""

_LIFT = 0.08
"""How far cube A is lifted before it is carried, and how far the gripper moves up after it let go [m]."""

_ABOVE = 0.03
"""Height above its place at which cube A lines up [m]."""

_DROP = 0.001
"""Height above its place at which cube A is let go [m]; pressed against cube B, it would push cube B aside."""


def _at_cube(env: StackEnv) -> Pose:
    return env.cube_a_pos, downward(env.cube_a.data.root_quat_w.torch)


def _above_cube(env: StackEnv) -> Pose:
    return raised(_at_cube(env), _CLEARANCE)


def _lift(env: StackEnv) -> Pose:
    return raised((env.tool_pos, unturned(env)), _LIFT)


def _over_place(env: StackEnv) -> Pose:
    return raised(_in_place(env), _ABOVE - _DROP)


def _in_place(env: StackEnv) -> Pose:
    # From where the cube is now: it may have slipped in the fingers, and it is the cube that has to arrive.
    return raised((env.stack_pos - env.cube_a_pos + env.tool_pos, unturned(env)), _DROP)


def _stay(env: StackEnv) -> Pose:
    return env.tool_pos, unturned(env)


def _fell(env: StackEnv) -> torch.Tensor:
    return ~env.stacked


PHASES = (
    Phase(target=_above_cube, step_length=0.03, tolerance=0.02),
    Phase(target=_at_cube, tolerance=0.006, still=0.2),
    Phase(target=_at_cube, hold=True, closed=True, dwell_s=0.5),
    Phase(target=_lift, hold=True, closed=True, tolerance=0.02),
    Phase(target=_over_place, closed=True, tolerance=0.008, still=0.2),
    Phase(target=_in_place, closed=True, step_length=0.006, tolerance=0.004, still=0.1),
    Phase(target=_stay, hold=True, dwell_s=0.3),
    Phase(target=_lift, hold=True, lost=_fell),
)
"""Grasps cube A, lifts it, lines up above cube B, goes down, lets go and moves up; tries again where it fell."""
