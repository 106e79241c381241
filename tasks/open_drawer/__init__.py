# SPDX-License-Identifier: BSD-3-Clause
"""Open drawer: pull the drawer of a cabinet open by its handle."""

from isaaclab_pc.tasks.registration import register_task

register_task(
    "IsaacPC-Open-Drawer-Franka-Direct",
    env=f"{__name__}.open_drawer_env:OpenDrawerEnv",
    env_cfg=f"{__name__}.open_drawer_env_cfg:OpenDrawerEnvCfg",
)
