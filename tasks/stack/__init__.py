# SPDX-License-Identifier: BSD-3-Clause
"""Stack: put one cube on another and let go."""

from isaaclab_pc.tasks.registration import register_task

register_task(
    "IsaacPC-Stack-Cube-Franka-Direct",
    env=f"{__name__}.stack_env:StackEnv",
    env_cfg=f"{__name__}.stack_env_cfg:StackEnvCfg",
)
