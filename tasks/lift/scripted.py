# SPDX-License-Identifier: BSD-3-Clause
"""A scripted grasp for the lift task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from isaaclab_pc.envs.scripted import Phase, Pose, downward, raised, unturned

if TYPE_CHECKING:
    from isaaclab_pc.tasks.lift.lift_env import LiftEnv

_CLEARANCE = 0.12
"""Height above the cube's centre at which the gripper lines up [m]."""


def _at_cube(env: LiftEnv) -> Pose:
    return env.cube_pos, downward(env.cube_quat)


def _above_cube(env: LiftEnv) -> Pose:
    return raised(_at_cube(env), _CLEARANCE)


def _cube_at_goal(env: LiftEnv) -> Pose:
    # From where the cube is now: it may have slipped in the fingers, and it is the cube that has to arrive.
    return env.goal_pos - env.cube_pos + env.tool_pos, unturned(env)


PHASES = (
    Phase(target=_above_cube, step_length=0.03, tolerance=0.02),
    Phase(target=_at_cube, tolerance=0.006, still=0.2),
    # Held where the cube was: while the fingers close, they push it.
    Phase(target=_at_cube, hold=True, closed=True, dwell_s=0.5),
    Phase(target=_cube_at_goal, closed=True),
)
"""Lines up above the cube, goes down, closes, and carries the cube to the goal."""
