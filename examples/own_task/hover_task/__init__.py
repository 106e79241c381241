# SPDX-License-Identifier: BSD-3-Clause
"""A task outside isaaclab_pc's repository: importing this package registers it, and loads no simulator."""

from isaaclab_pc.agents import distill, ppo
from isaaclab_pc.tasks.registration import register_task

register_task(
    "Example-Hover-Cube-Franka-Direct",
    env=f"{__name__}.hover_env:HoverEnv",
    env_cfg=f"{__name__}.hover_env:HoverEnvCfg",
    ppo=ppo.REACH,
    distill=distill.REACH,
)
