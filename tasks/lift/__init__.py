# SPDX-License-Identifier: BSD-3-Clause
"""Lift: grasp a cube and bring it to a goal above the table."""

import gymnasium as gym

gym.register(
    id="IsaacPC-Lift-Cube-Franka-Direct",
    entry_point=f"{__name__}.lift_env:LiftEnv",
    disable_env_checker=True,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.lift_env_cfg:LiftEnvCfg",
        "default_agent": "rsl_rl",
    },
)
