# SPDX-License-Identifier: BSD-3-Clause
"""Reach: bring the tool centre to a visible target."""

import gymnasium as gym

_AGENTS = "isaaclab_pc.agents.ppo"

gym.register(
    id="IsaacPC-Reach-Franka-Direct",
    entry_point=f"{__name__}.reach_env:ReachEnv",
    disable_env_checker=True,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.reach_env_cfg:ReachEnvCfg",
        "default_agent": "rsl_rl",
    },
)
