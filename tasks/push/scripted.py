# SPDX-License-Identifier: BSD-3-Clause
"""A scripted push for the push task."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from isaaclab_pc.envs.manipulation import upright
from isaaclab_pc.envs.scripted import Phase, Pose, downward, raised

if TYPE_CHECKING:
    from isaaclab_pc.tasks.push.push_env import PushEnv

_CLEARANCE = 0.1
"""Height above the cube's centre at which the gripper moves behind the cube [m]."""

_GAP = 0.03
"""Distance behind the place to push from at which the gripper goes down [m]."""

_STOP = 0.04
"""Distance of the cube from the middle of the region at which the push ends [m]; beyond the middle it would turn."""

_SLIPPED = 0.04
"""Distance from the place to push from at which the cube has slipped off the fingers [m]."""

_AHEAD = 0.03
"""Distance of the target from the tool while it pushes [m]."""


def _across(env: PushEnv) -> torch.Tensor:
    """Return the orientation in which the fingers are side by side across the way to the region."""
    direction = env.push_direction
    return downward(upright(torch.atan2(direction[:, 1], direction[:, 0])), symmetry=math.pi)


def _behind(env: PushEnv) -> Pose:
    return env.push_pos - _GAP * env.push_direction, _across(env)


def _above(env: PushEnv) -> Pose:
    return raised(_behind(env), _CLEARANCE)


def _up(env: PushEnv) -> Pose:
    position = env.tool_pos.clone()
    position[:, 2] = torch.maximum(position[:, 2], env.cube_pos[:, 2] + _CLEARANCE)
    return position, _across(env)


def _push(env: PushEnv) -> Pose:
    # The cube sticks to the fingers: moving around it to push from another side would drag it along.
    ahead = (env.goal_distance - _STOP).clamp(0.0, _AHEAD)[:, None]
    position = env.tool_pos + ahead * env.push_direction
    position[:, 2] = env.cube_pos[:, 2]
    return position, _across(env)


def _lost(env: PushEnv) -> torch.Tensor:
    away = torch.linalg.vector_norm(env.push_pos - env.tool_pos, dim=1) > _SLIPPED
    return away & (env.goal_distance > 2.0 * _STOP)


PHASES = (
    Phase(target=_up, closed=True, step_length=0.03, tolerance=0.02),
    Phase(target=_above, closed=True, step_length=0.03, tolerance=0.02),
    Phase(target=_behind, closed=True, tolerance=0.01),
    Phase(target=_push, closed=True, lost=_lost),
)
"""Moves behind the cube, goes down, and pushes it well into the region; tries again where it slips off."""
