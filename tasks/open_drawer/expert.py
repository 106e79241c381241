# SPDX-License-Identifier: BSD-3-Clause
"""The expert of the drawer task."""

import math

import torch
from isaaclab.utils.math import quat_apply_inverse

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

_FROM_END = 0.02
"""Distance of the tool from the handle's ends at which it pulls [m], where the handle is long enough."""

_ASIDE = 0.012
"""Distance of the tool from the handle's middle, along it, up to which it always pulls [m]."""

_OVER_BAR = 0.08
"""Height above the bar at which the tool passes over it [m]."""


def _ahead(env: OpenDrawerEnv) -> torch.Tensor:
    """Return how far the tool is from the middle of the gap, in the direction of the pull [m], (N,)."""
    return ((env.tool_pos - env.grip_pos) * env.pull_axis).sum(dim=1)


def _in_gap(env: OpenDrawerEnv) -> torch.Tensor:
    offset = quat_apply_inverse(env.cabinet.data.root_quat_w.torch, env.tool_pos - env.grip_pos)
    aside = (env.handle_length / 2 - _FROM_END).clamp(min=_ASIDE)
    return (offset[:, 0].abs() < env.gap / 2) & (offset[:, 1].abs() < aside) & (offset[:, 2] < _ABOVE)


def _gap(env: OpenDrawerEnv) -> Pose:
    # Where the action can turn the gripper, its fingers are side by side along the bar.
    return env.grip_pos, grasp_quat(env, env.cabinet.data.root_quat_w.torch, symmetry=math.pi)


def _pulled(env: OpenDrawerEnv) -> Pose:
    position, quat = _gap(env)
    left = (_FULLY_OPEN - env.opening) * env.travel
    # From where the tool is: in a wide gap, it meets the bar late.
    ahead = _ahead(env).clamp(min=0.0) + left.clamp(min=0.0)
    return position + ahead.clamp(max=_AHEAD)[:, None] * env.pull_axis, quat


def _behind_bar(env: OpenDrawerEnv) -> torch.Tensor:
    return (_ahead(env) < -env.gap) & (env.tool_pos[:, 2] < env.grip_pos[:, 2] + _OVER_BAR)


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
