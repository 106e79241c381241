# SPDX-License-Identifier: BSD-3-Clause
"""Reach: bring the tool centre to a visible target."""

from isaaclab_pc.agents import distill, ppo
from isaaclab_pc.tasks.registration import register_task

register_task(
    "IsaacPC-Reach-Franka-Direct",
    env=f"{__name__}.reach_env:ReachEnv",
    env_cfg=f"{__name__}.reach_env_cfg:ReachEnvCfg",
    ppo=ppo.REACH,
    distill=distill.REACH,
)
