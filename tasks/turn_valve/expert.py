# SPDX-License-Identifier: BSD-3-Clause
"""The expert of the valve task."""

import torch

from isaaclab_pc.envs.expert import Case, Pose, from_above, unturned
from isaaclab_pc.tasks.turn_valve.turn_valve_env import TurnValveEnv

_CLEARANCE = 0.08
"""Height above the place to push from at which the gripper lines up [m]."""

_OUTSIDE = 0.012
"""How far outside the knob's circle the tool pushes [m]: between both fingers, the knob would part them."""

_BEHIND = 0.045
"""How far behind the knob, along its circle, the gripper goes down [m]."""

_FAR_BEHIND = 2.0 * _BEHIND
"""How far behind the knob, along its circle, the gripper may be to push [m]."""

_ABOVE = 0.02
"""Height of the tool above the place to push from up to which it pushes [m]."""

_OFF_CIRCLE = 0.025
"""Distance of the tool from the knob's circle up to which it pushes [m]."""

_AHEAD = 0.2
"""How far ahead of the tool, along the circle, its target is while it pushes [rad]."""

_RADIAL_GAIN = 2.0
"""Factor by which the tool's distance from the circle is corrected while it pushes."""

_BEYOND = 0.08
"""How far beyond the target angle the push ends [rad]."""


def _on_circle(env: TurnValveEnv, angle: torch.Tensor) -> torch.Tensor:
    """Return where the tool is when it pushes at an angle of the valve [rad], (N,), in the environment frame [m]."""
    return env.knob_at(angle, _OUTSIDE)


def _is_behind(env: TurnValveEnv) -> torch.Tensor:
    angle = env.angle_of(env.tool_pos)
    off = env.tool_pos - _on_circle(env, angle)
    behind = (env.angle - angle) * env.direction * env.radius
    near = torch.linalg.vector_norm(off[:, :2], dim=1) < _OFF_CIRCLE
    return near & (off[:, 2] < _ABOVE) & (behind > 0.0) & (behind < _FAR_BEHIND)


def _behind_knob(env: TurnValveEnv) -> Pose:
    place = _on_circle(env, env.angle - _BEHIND / env.radius * env.direction), unturned(env)
    return from_above(env, place, _CLEARANCE)


def _push(env: TurnValveEnv) -> Pose:
    left = (env.target - env.angle) * env.direction + _BEYOND
    angle = env.angle_of(env.tool_pos)
    ahead = _on_circle(env, angle + env.direction * left.clamp(0.0, _AHEAD))

    # The knob cannot leave its circle, so a tool that is kept on the same circle cannot lose it.
    back_on_circle = _on_circle(env, angle) - env.tool_pos
    return ahead + _RADIAL_GAIN * back_on_circle, unturned(env)


CASES = (
    Case(name="push", when=_is_behind, target=_push, closed=True, step_length=0.015),
    Case(name="get behind the knob", target=_behind_knob, closed=True),
)
