# SPDX-License-Identifier: BSD-3-Clause
"""The expert of the hover task, from which policies learn. Standing beside the environment, it is found by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from isaaclab_pc.envs.expert import Case

if TYPE_CHECKING:
    from hover_task.hover_env import HoverEnv


def _above_the_cube(env: HoverEnv) -> tuple[torch.Tensor, torch.Tensor]:
    return env.goal_pos(), env.tool_quat


CASES = (Case(name="go above the cube", target=_above_the_cube),)
