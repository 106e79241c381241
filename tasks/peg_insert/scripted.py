# SPDX-License-Identifier: BSD-3-Clause
"""A scripted insertion for the peg insertion task."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from isaaclab.utils.math import (
    combine_frame_transforms,
    euler_xyz_from_quat,
    quat_apply,
    quat_conjugate,
    quat_from_euler_xyz,
    quat_mul,
    subtract_frame_transforms,
)

from isaaclab_pc.envs.manipulation import upright
from isaaclab_pc.envs.scripted import Phase, Pose, downward, raised, unturned

if TYPE_CHECKING:
    from isaaclab_pc.tasks.peg_insert.peg_insert_env import PegInsertEnv

_CLEARANCE = 0.1
"""Height above the place of the grasp at which the gripper lines up [m]."""

_APART = 0.03
"""Distance of the peg's head from the box at which peg and hole are lined up [m]."""

_MOUTH = 0.02
"""How deep the head is in the hole when its walls begin to guide the peg [m]."""

_ADVANCE = 0.03
"""How far ahead of the peg its target on the hole's axis is, once its head is in the hole [m]."""

_SLIPPED = 0.03
"""Distance of the fingers from where they grasped the peg at which the grasp counts as lost [m]."""


def _at_tail(env: PegInsertEnv) -> Pose:
    # Equal only after a whole turn: of the two possible grasps, only this one lets the wrist turn to the hole.
    return env.grasp_pos, downward(env.peg_quat, symmetry=2.0 * math.pi)


def _above_tail(env: PegInsertEnv) -> Pose:
    return raised(_at_tail(env), _CLEARANCE)


def _middle_for_head(env: PegInsertEnv, head: torch.Tensor) -> torch.Tensor:
    """Return where the peg's middle is when its head is at ``head`` on the hole's axis [m], shape (N,)."""
    along = torch.nn.functional.pad((head - env.half_length)[:, None], (0, 2))
    return env.hole_pos + quat_apply(env.box_quat, along)


def _peg_at(env: PegInsertEnv, head: torch.Tensor) -> Pose:
    """Return the tool's pose that brings the peg, as it lies in the fingers, in line with the hole."""
    tool_in_peg = subtract_frame_transforms(env.peg_pos, env.peg_quat, env.tool_pos, env.tool_quat)

    # A peg that was dropped may lie on another of its sides, all of which fit.
    roll, _, _ = euler_xyz_from_quat(quat_mul(quat_conjugate(env.box_quat), env.peg_quat))
    quarter = math.pi / 2
    level = torch.zeros_like(roll)
    side = quat_from_euler_xyz(torch.round(roll / quarter) * quarter, level, level)

    peg_quat = quat_mul(env.box_quat, side)
    return combine_frame_transforms(_middle_for_head(env, head), peg_quat, *tool_in_peg)


def _before_hole(env: PegInsertEnv) -> Pose:
    return _peg_at(env, -env.half_length - _APART)


def _in_mouth(env: PegInsertEnv) -> Pose:
    return _peg_at(env, -env.half_length + _MOUTH)


def _into_hole(env: PegInsertEnv) -> Pose:
    # The walls hold the peg's pitch. A tool that corrected it in every step would make the peg rock in the fingers.
    _, _, hole_yaw = euler_xyz_from_quat(env.box_quat)
    _, _, peg_yaw = euler_xyz_from_quat(env.peg_quat)
    turn = upright(hole_yaw - peg_yaw)

    middle = _middle_for_head(env, (env.head_in_hole[:, 0] + _ADVANCE).clamp(max=0.0))
    return middle + quat_apply(turn, env.tool_pos - env.peg_pos), quat_mul(turn, unturned(env))


def _here(env: PegInsertEnv) -> Pose:
    return env.tool_pos, env.tool_quat


def _slipped(env: PegInsertEnv) -> torch.Tensor:
    away = torch.linalg.vector_norm(env.tool_pos - env.grasp_pos, dim=1) > _SLIPPED
    return away & ~env.is_fulfilled()


_LINE_UP = Phase(
    target=_before_hole,
    hold=True,
    closed=True,
    gain=0.5,
    tolerance=0.001,
    turn_tolerance=0.01,
    still=0.05,
    lost=_slipped,
)
PHASES = (
    Phase(target=_above_tail, step_length=0.03, tolerance=0.02, turn_tolerance=0.1),
    Phase(target=_at_tail, tolerance=0.006, turn_tolerance=0.05, still=0.2),
    Phase(target=_at_tail, hold=True, closed=True, dwell_s=0.5),
    Phase(target=_above_tail, hold=True, closed=True, tolerance=0.02),
    # Three times, each from how the peg lies in the fingers by then, as ManiSkill's own solution does.
    _LINE_UP,
    _LINE_UP,
    _LINE_UP,
    Phase(target=_in_mouth, hold=True, closed=True, step_length=0.006, tolerance=0.003, lost=_slipped),
    Phase(target=_into_hole, closed=True, gain=0.3, tolerance=0.005, lost=_slipped),
    Phase(target=_here, hold=True, closed=True),
)
"""Lines up above the peg's tail, grasps it, lifts it, brings the head before the hole, pushes it in, and stays."""
