# SPDX-License-Identifier: BSD-3-Clause
"""The expert of the task of lifting any object."""

import torch
from isaaclab.utils.math import quat_apply_inverse, quat_error_magnitude

from isaaclab_pc.envs.expert import Case, Pose, finger_opening, fingers_rest, has_begun_to_close
from isaaclab_pc.tasks.lift.expert import in_front, is_astray, to_goal
from isaaclab_pc.tasks.lift_any.lift_any_env import LiftAnyEnv

_PAD = 0.012
"""Distance of the tool from a grasp, along the pads, at which the gripper begins to close [m]."""

_TURNED = 0.35
"""Angle to a grasp at which it begins to close [rad]."""

_STILL_AROUND = 0.03
"""Distance up to which it goes on closing [m]."""

_STILL_TURNED = 0.6
"""Angle up to which it goes on closing [rad]."""

_MISSED = 0.4
"""Opening, as a share of the grasp's width, below which there is nothing between the fingers."""

_LIFTED = 0.012
"""Height of the object's lowest point at which it is off the table [m]."""

_OVER_OBJECT = 0.03
"""Height of the tool over the object's highest point where it is yet to come over its grasp [m]."""


def _room(env: LiftAnyEnv, most: float) -> torch.Tensor:
    """Return how far the tool may be off a grasp between its open fingers [m], (N,), at most ``most``."""
    _, _, width = env.grasp
    return (env.arm.finger_travel.mean(dim=1) - width / 2.0 - 0.001).clamp(0.004, most)


def _held(env: LiftAnyEnv) -> torch.Tensor:
    lowest = env.corner_heights.amin(dim=1)
    return env.grasped & (fingers_rest(env) | (lowest > _LIFTED))


def _closing(env: LiftAnyEnv) -> torch.Tensor:
    position, quat, width = env.grasp
    offset = position - env.tool_pos
    angle = quat_error_magnitude(quat, env.tool_quat)
    away = quat_apply_inverse(env.tool_quat, offset).abs()
    is_there = (away[:, 0] < _PAD) & (away[:, 2] < _PAD) & (away[:, 1] < _room(env, _PAD)) & (angle < _TURNED)

    has_begun = has_begun_to_close(env) & (2.0 * finger_opening(env) > _MISSED * width)
    is_around = (torch.linalg.vector_norm(offset, dim=1) < _STILL_AROUND) & (angle < _STILL_TURNED)
    return is_there | (has_begun & is_around) | env.grasped


def _grasp(env: LiftAnyEnv) -> Pose:
    position, quat, _ = env.grasp
    return position, quat


def _funnel(env: LiftAnyEnv) -> Pose:
    """Lead the tool down the lower, the better it is over the grasp and turned to it."""
    # A student cannot tell an edge, and would halt at it.
    position, quat, _ = env.grasp
    away = quat_apply_inverse(env.tool_quat, position - env.tool_pos).abs()
    beside = torch.hypot((away[:, 0] - 0.01).clamp(min=0.0), (away[:, 1] - _room(env, 0.01)).clamp(min=0.0))
    angle = quat_error_magnitude(quat, env.tool_quat)
    over_object = (env.corner_heights.amax(dim=1) + _OVER_OBJECT - position[:, 2]).clamp(min=0.06)
    height = 2.0 * beside + 0.07 * (angle - 0.3).clamp(min=0.0)
    height = torch.minimum(height, over_object)
    return position + torch.nn.functional.pad(height[:, None], (2, 0)), quat


CASES = (
    # Slowly at the end: a student that is not sure of the centre of mass would tremble there.
    Case(name="carry to the goal", when=_held, target=to_goal, closed=True, gain=0.25, step_length=0.02),
    Case(name="close", when=_closing, target=_grasp, closed=True),
    Case(name="come back in front", when=is_astray, target=in_front),
    Case(name="come down to the grasp", target=_funnel, gain=0.4, step_length=0.02),
)
