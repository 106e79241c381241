# SPDX-License-Identifier: BSD-3-Clause
"""The expert of the hover task, from which policies learn. Standing beside the environment, it is found by its name."""

import torch

from hover_task.hover_env import HoverEnv
from isaaclab_pc.envs.expert import Case


def _above_the_cube(env: HoverEnv) -> tuple[torch.Tensor, torch.Tensor]:
    return env.goal_pos(), env.tool_quat


CASES = (Case(name="go above the cube", target=_above_the_cube),)
