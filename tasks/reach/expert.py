# SPDX-License-Identifier: BSD-3-Clause
"""The expert of the reach task."""

from isaaclab_pc.envs.expert import Case, Pose
from isaaclab_pc.tasks.reach.reach_env import ReachEnv


def _target(env: ReachEnv) -> Pose:
    return env.target_pos, env.tool_quat


CASES = (Case(name="go to the target", target=_target),)
