# SPDX-License-Identifier: BSD-3-Clause
"""NewTask: hold the tool centre above a cube."""

from isaaclab_pc.tasks.registration import register_task

register_task(
    "IsaacPC-New-Task-Franka-Direct",
    env=f"{__name__}.new_task_env:NewTaskEnv",
    env_cfg=f"{__name__}.new_task_env_cfg:NewTaskEnvCfg",
)
