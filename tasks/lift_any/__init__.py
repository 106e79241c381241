# SPDX-License-Identifier: BSD-3-Clause
"""Lift any: grasp an object, of another shape in every environment, and bring it to a goal above the table."""

from isaaclab_pc.agents.distill import SHAPES
from isaaclab_pc.tasks.registration import register_task

register_task(
    "IsaacPC-Lift-Any-Franka-Direct",
    env=f"{__name__}.lift_any_env:LiftAnyEnv",
    env_cfg=f"{__name__}.lift_any_env_cfg:LiftAnyEnvCfg",
    distill=SHAPES,
)
