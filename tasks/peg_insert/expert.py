# SPDX-License-Identifier: BSD-3-Clause
"""The expert of the peg insertion task."""

import torch
from isaaclab.utils.math import euler_xyz_from_quat, quat_apply, quat_error_magnitude, quat_mul, wrap_to_pi

from isaaclab_pc.envs.expert import (
    Case,
    Pose,
    downward,
    fingers_rest,
    from_above,
    is_closing_on,
    is_wound_up,
    raised,
    stay,
    unturned,
    unwinding,
    yaw_within_reach,
)
from isaaclab_pc.envs.manipulation import upright
from isaaclab_pc.tasks.peg_insert.peg_insert_env import PegInsertEnv

_CLEARANCE = 0.1
"""Height above the place of the grasp from which the gripper comes down [m]."""

_SLOW = 1.0
"""Speed of the fastest arm joint below which the gripper closes [rad/s]."""

_TURNED = 0.15
"""Angle to the grasp at which the gripper closes [rad]: the fingers turn the peg by the rest."""

_TURNED_ABOVE = 0.3
"""Angle to the grasp at which it comes down [rad]; it turns on the way."""

_LIFTED = 0.05
"""Height of the peg's middle from which it is turned and carried [m]."""

_APART = 0.03
"""Distance of the peg's head from the box at which peg and hole are lined up [m]."""

_LINED_UP = 0.004
"""Distance from the hole's axis up to which the peg moves into the hole at full speed [m]."""

_BESIDE = 0.009
"""Distance from the hole's axis from which the head keeps away from the box [m]: it would not meet the chamfer."""

_BETWEEN_WALLS = 0.015
"""Distance from the hole's axis beyond which the head cannot be in the hole [m]."""

_MOUTH = 0.02
"""How deep the head is in the hole when its walls begin to guide the peg [m]."""

_TURN_SHARE = 0.5
"""Share of the yaw between peg and hole that is asked for: the peg gives way in the fingers, so that with all of it
its head swings about the axis."""

_ADVANCE = 0.02
"""How far ahead of the peg its target on the hole's axis is [m]."""

_LOWEST_JOINTS = (-0.5, -1.2, -2.5, -2.9, -1.1, 2.0, -2.9)
"""Smallest positions of the Panda's joints in episodes in which nothing goes wrong [rad]; its last may be anywhere."""

_HIGHEST_JOINTS = (2.8, 0.8, 0.3, -1.2, 0.7, 3.2, 2.9)
"""Largest positions [rad]."""


def _depth(env: PegInsertEnv) -> torch.Tensor:
    """Return how deep the head is in the hole [m], negative before it, shape (N,)."""
    return env.head_in_hole[:, 0] + env.half_length


def _off_axis(env: PegInsertEnv) -> torch.Tensor:
    """Return how far the peg is off the hole's axis [m], shape (N,): its head, or its middle sideways."""
    head = torch.linalg.vector_norm(env.head_in_hole[:, 1:], dim=1)
    return torch.maximum(head, env.middle_in_hole[:, 1].abs())


def _wound_up(env: PegInsertEnv) -> torch.Tensor:
    if len(env.arm.joints) != len(_LOWEST_JOINTS):
        # Another arm than the Panda, tried with env.robots: nothing is known of its postures.
        return torch.zeros_like(env.grasped)
    return is_wound_up(env, _LOWEST_JOINTS, _HIGHEST_JOINTS)


def _held(env: PegInsertEnv) -> torch.Tensor:
    return env.grasped & (fingers_rest(env) | (env.peg_pos[:, 2] > _LIFTED))


def _guided(env: PegInsertEnv) -> torch.Tensor:
    return env.grasped & (_depth(env) > _MOUTH) & (_off_axis(env) < _BETWEEN_WALLS)


def _lying(env: PegInsertEnv) -> torch.Tensor:
    return _held(env) & (env.peg_pos[:, 2] < _LIFTED) & (_depth(env) < -2.0 * _APART)


def _around(env: PegInsertEnv) -> torch.Tensor:
    position, quat = _tail(env)
    turned = quat_error_magnitude(quat, env.tool_quat) < _TURNED
    slow = env.arm_state.joint_speed < _SLOW
    return (turned & slow & is_closing_on(env, position, 2.0 * env.radius)) | env.grasped


def _tail(env: PegInsertEnv) -> Pose:
    # Not the nearest of the two possible grasps: only from this one the wrist can turn to the hole.
    _, _, yaw = euler_xyz_from_quat(env.peg_quat)

    return env.grasp_pos, downward(yaw_within_reach(env, yaw))


def _in_line_at(env: PegInsertEnv, depth: torch.Tensor) -> Pose:
    """Return the tool's pose that brings the peg's head to a depth (N,) on the hole's axis [m], at the hole's yaw."""
    # The peg keeps its pitch: a tool that corrected it would make the peg rock in the fingers. The walls straighten it.
    _, _, hole_yaw = euler_xyz_from_quat(env.box_quat)
    _, _, peg_yaw = euler_xyz_from_quat(env.peg_quat)
    turn = upright(_TURN_SHARE * wrap_to_pi(hole_yaw - peg_yaw))

    along = torch.nn.functional.pad((depth - env.half_length)[:, None], (0, 2))
    goal = env.hole_pos + quat_apply(env.box_quat, along)
    head = env.hole_pos + quat_apply(env.box_quat, env.head_in_hole)
    return goal + quat_apply(turn, env.tool_pos - head), quat_mul(turn, unturned(env))


def _in_line(env: PegInsertEnv) -> Pose:
    # The better peg and hole are in line, the closer the head comes. A student that is not sure how well they are goes
    # on slowly, and does not halt as it would where "on" and "back" meet.
    lined_up = ((_BESIDE - _off_axis(env)) / (_BESIDE - _LINED_UP)).clamp(0.0, 1.0)
    ahead = (_depth(env) + _ADVANCE).clamp(max=_MOUTH + 0.01)
    return _in_line_at(env, torch.lerp(torch.full_like(ahead, -_APART), ahead, lined_up))


def _into_hole(env: PegInsertEnv) -> Pose:
    # To the middle of the hole from either side: a student that is told to stay wherever it is drifts away.
    return _in_line_at(env, torch.minimum(_depth(env) + _ADVANCE, env.half_length))


CASES = (
    Case(name="push into the hole", when=_guided, target=_into_hole, closed=True, gain=0.3),
    Case(name="unwind the arm", when=_wound_up, target=unwinding, closed=True),
    Case(name="lift", when=_lying, target=lambda env: raised(stay(env), _CLEARANCE), closed=True),
    Case(name="bring to the hole", when=_held, target=_in_line, closed=True, gain=0.25, step_length=0.02),
    Case(name="close", when=_around, target=_tail, closed=True),
    Case(
        name="come from above",
        target=lambda env: from_above(env, _tail(env), _CLEARANCE, turned=_TURNED_ABOVE),
        gain=0.5,
    ),
)
