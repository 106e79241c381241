# SPDX-License-Identifier: BSD-3-Clause
"""The expert of the push task."""

import math

import torch

from isaaclab_pc.envs.expert import Case, Pose, from_above, grasp_quat, stay
from isaaclab_pc.envs.manipulation import upright
from isaaclab_pc.tasks.push.push_env import PushEnv

_CLEARANCE = 0.1
"""Height above the cube's centre at which the gripper passes over the cube [m]."""

_GAP = 0.03
"""Distance behind the place to push from at which the gripper comes down [m]."""

_ARRIVED = 0.04
"""Distance of the cube from the middle of the region at which the push ends [m]; beyond the middle it would turn."""

_ASIDE = 0.03
"""Distance of the tool from the line of the push up to which it pushes [m]."""

_ABOVE = 0.02
"""Height of the tool above the cube's centre up to which it pushes [m]."""

_BEHIND = (-0.015, 0.045)
"""Distances behind the place to push from between which it pushes [m]; at the nearer one is the cube's side."""

_AHEAD = 0.02
"""Distance of the target from the tool while it pushes [m]."""

_BACK_ON_LINE = 0.3
"""Share of its distance from the line of the push that the tool makes good in a step."""


def _is_behind(env: PushEnv) -> torch.Tensor:
    way = env.cube_pos - env.tool_pos
    ahead = (way * env.push_direction).sum(dim=1)
    aside = torch.linalg.vector_norm((way - ahead[:, None] * env.push_direction)[:, :2], dim=1)

    nearest, farthest = _BEHIND
    behind = ((env.push_pos - env.tool_pos) * env.push_direction).sum(dim=1)
    return (behind > nearest) & (behind < farthest) & (aside < _ASIDE) & (way[:, 2] > -_ABOVE)


def _across(env: PushEnv) -> torch.Tensor:
    """Return the orientation in which the fingers are side by side across the way to the region."""
    direction = env.push_direction
    yaw = torch.atan2(direction[:, 1], direction[:, 0])
    return grasp_quat(env, upright(yaw), symmetry=math.pi)


def _behind(env: PushEnv) -> Pose:
    return from_above(env, (env.push_pos - _GAP * env.push_direction, _across(env)), _CLEARANCE)


def _ahead(env: PushEnv) -> Pose:
    # Towards the line through cube and region, so that the cube stays in front of the fingers.
    way = env.cube_pos - env.tool_pos
    along = (way * env.push_direction).sum(dim=1, keepdim=True)
    back_on_line = way - along * env.push_direction
    position = env.tool_pos + _AHEAD * env.push_direction + _BACK_ON_LINE * back_on_line
    position[:, 2] = env.cube_pos[:, 2]
    return position, _across(env)


CASES = (
    Case(name="stay", when=lambda env: env.goal_distance < _ARRIVED, target=stay, closed=True),
    Case(name="push", when=_is_behind, target=_ahead, closed=True, step_length=0.012),
    Case(name="get behind the cube", target=_behind, closed=True),
)
