# SPDX-License-Identifier: BSD-3-Clause
"""A scripted motion for the reach task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from isaaclab_pc.envs.scripted import Phase, Pose

if TYPE_CHECKING:
    from isaaclab_pc.tasks.reach.reach_env import ReachEnv


def _at_target(env: ReachEnv) -> Pose:
    return env.target_pos, env.tool_quat


PHASES = (Phase(target=_at_target, step_length=0.03),)
"""Goes to the target and stays there."""
