# SPDX-License-Identifier: BSD-3-Clause
"""Lift: grasp a cube and bring it to a goal above the table."""

from isaaclab_pc.tasks.registration import register_task

register_task(
    "IsaacPC-Lift-Cube-Franka-Direct",
    env=f"{__name__}.lift_env:LiftEnv",
    env_cfg=f"{__name__}.lift_env_cfg:LiftEnvCfg",
)
