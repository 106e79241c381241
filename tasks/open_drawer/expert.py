# SPDX-License-Identifier: BSD-3-Clause
"""The expert of the drawer task."""

import math

import torch
from isaaclab.utils.math import quat_apply_inverse

from isaaclab_pc.assets.articulated import DRAWER_TRAVEL, HANDLE_GAP
from isaaclab_pc.envs.expert import Case, Pose, from_above, grasp_quat, unturned
from isaaclab_pc.tasks.open_drawer.open_drawer_env import OpenDrawerEnv

_CLEARANCE = 0.06
"""Height above the handle at which the gripper lines up [m]."""

_AHEAD = 0.04
"""Distance of the target from the middle of the gap while the tool pulls [m]; the bar is in between."""

_FULLY_OPEN = 0.97
"""Share of the drawer's travel at which the pull ends: past success, short of the end stop."""

_ABOVE = 0.015
"""Height of the tool above the bar's centre up to which it pulls [m]."""

_ASIDE = 0.05
"""Distance of the tool from the middle of the bar, along it, up to which it pulls [m]."""

_OVER_BAR = 0.08
"""Height above the bar at which the tool passes over it [m]."""


def _in_gap(env: OpenDrawerEnv) -> torch.Tensor:
    offset = quat_apply_inverse(env.cabinet.data.root_quat_w.torch, env.tool_pos - env.grip_pos)
    return (offset[:, 0].abs() < HANDLE_GAP / 2) & (offset[:, 1].abs() < _ASIDE) & (offset[:, 2] < _ABOVE)


def _gap(env: OpenDrawerEnv) -> Pose:
    # Where the action can turn the gripper, its fingers are side by side along the bar.
    return env.grip_pos, grasp_quat(env, env.cabinet.data.root_quat_w.torch, symmetry=math.pi)


def _pulled(env: OpenDrawerEnv) -> Pose:
    position, quat = _gap(env)
    left = (_FULLY_OPEN - env.opening) * DRAWER_TRAVEL
    return position + left.clamp(0.0, _AHEAD)[:, None] * env.pull_axis, quat


def _behind_bar(env: OpenDrawerEnv) -> torch.Tensor:
    ahead = ((env.tool_pos - env.grip_pos) * env.pull_axis).sum(dim=1)
    return (ahead < -HANDLE_GAP) & (env.tool_pos[:, 2] < env.grip_pos[:, 2] + _OVER_BAR)


def _up(env: OpenDrawerEnv) -> Pose:
    # Straight: the cabinet is in the way to the bar.
    position = env.tool_pos.clone()
    position[:, 2] = env.grip_pos[:, 2] + 2.0 * _OVER_BAR
    return position, unturned(env)


CASES = (
    Case(name="rise beside the cabinet", when=_behind_bar, target=_up, closed=True),
    Case(name="pull", when=_in_gap, target=_pulled, closed=True, step_length=0.012),
    Case(name="get behind the bar", target=lambda env: from_above(env, _gap(env), _CLEARANCE), closed=True),
)
