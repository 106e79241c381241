# SPDX-License-Identifier: BSD-3-Clause
"""A scripted turn for the valve task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from isaaclab_pc.assets.author_articulated import KNOB_CENTER
from isaaclab_pc.envs.scripted import Phase, Pose, raised, unturned

if TYPE_CHECKING:
    from isaaclab_pc.tasks.turn_valve.turn_valve_env import TurnValveEnv

_CLEARANCE = 0.08
"""Height above the place to push from at which the gripper lines up [m]."""

_BEHIND = 0.045 / KNOB_CENTER[0]
"""How far behind the knob, along its circle, the gripper goes down [rad]."""

_AHEAD = 0.2
"""How far ahead of the tool, along the circle, its target is while it pushes [rad]."""

_RADIAL_GAIN = 2.0
"""Factor by which the tool's distance from the circle is corrected while it pushes."""

_BEYOND = 0.08
"""How far beyond the target angle the push ends [rad]."""


def _behind_knob(env: TurnValveEnv) -> Pose:
    return env.knob_at(env.angle - _BEHIND * env.target.sign()), unturned(env)


def _above(env: TurnValveEnv) -> Pose:
    return raised(_behind_knob(env), _CLEARANCE)


def _push(env: TurnValveEnv) -> Pose:
    direction = env.target.sign()
    left = (env.target - env.angle) * direction + _BEYOND
    angle = env.angle_of(env.tool_pos)
    ahead = env.knob_at(angle + direction * left.clamp(0.0, _AHEAD))

    # The knob cannot leave its circle, so a tool that is kept on the same circle cannot lose it.
    back_on_circle = env.knob_at(angle) - env.tool_pos
    return ahead + _RADIAL_GAIN * back_on_circle, unturned(env)


PHASES = (
    Phase(target=_above, closed=True, step_length=0.03, tolerance=0.01),
    Phase(target=_behind_knob, closed=True, tolerance=0.008),
    Phase(target=_push, closed=True, step_length=0.008),
)
"""Closes, lines up behind the knob, goes down, and pushes the knob around the valve's axis."""
