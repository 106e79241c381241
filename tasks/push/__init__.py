# SPDX-License-Identifier: BSD-3-Clause
"""Push: move a cube into a region on the table."""

from isaaclab_pc.tasks.registration import register_task

register_task(
    "IsaacPC-Push-Cube-Franka-Direct",
    env=f"{__name__}.push_env:PushEnv",
    env_cfg=f"{__name__}.push_env_cfg:PushEnvCfg",
)
