# SPDX-License-Identifier: BSD-3-Clause
"""Peg insertion: grasp a peg and put it into a box's hole."""

from isaaclab_pc.agents import distill
from isaaclab_pc.tasks.registration import register_task

register_task(
    "IsaacPC-Insert-Peg-Franka-Direct",
    env=f"{__name__}.peg_insert_env:PegInsertEnv",
    env_cfg=f"{__name__}.peg_insert_env_cfg:PegInsertEnvCfg",
    distill=distill.PRECISE,
)
