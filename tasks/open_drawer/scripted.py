# SPDX-License-Identifier: BSD-3-Clause
"""A scripted pull for the drawer task."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from isaaclab_pc.assets.author_articulated import DRAWER_JOINT
from isaaclab_pc.envs.scripted import Phase, Pose, downward, raised

if TYPE_CHECKING:
    from isaaclab_pc.tasks.open_drawer.open_drawer_env import OpenDrawerEnv

_CLEARANCE = 0.06
"""Height above the handle at which the gripper lines up [m]."""

_AHEAD = 0.04
"""Distance of the target from the middle of the gap while the tool pulls [m]; the bar is in between."""

_FULLY_OPEN = 0.97
"""Share of the drawer's travel at which the pull ends: past success, short of the end stop."""


def _behind_bar(env: OpenDrawerEnv) -> Pose:
    # Where the action can turn the gripper, its fingers are side by side along the bar.
    return env.grip_pos, downward(env.cabinet.data.root_quat_w.torch, symmetry=math.pi)


def _above_gap(env: OpenDrawerEnv) -> Pose:
    return raised(_behind_bar(env), _CLEARANCE)


def _pulled(env: OpenDrawerEnv) -> Pose:
    position, quat = _behind_bar(env)
    left = (_FULLY_OPEN - env.opening) * DRAWER_JOINT.upper
    return position + left.clamp(0.0, _AHEAD)[:, None] * env.pull_axis, quat


PHASES = (
    Phase(target=_above_gap, closed=True, step_length=0.03, tolerance=0.006),
    Phase(target=_behind_bar, closed=True, tolerance=0.008),
    Phase(target=_pulled, closed=True),
)
"""Closes, lines up above the gap behind the handle's bar, goes down into it, and pulls."""
