# SPDX-License-Identifier: BSD-3-Clause
"""Registration of a task with gymnasium: names only, nothing is imported."""

import gymnasium as gym

_AGENTS = "isaaclab_pc.agents"


def register_task(task_id: str, env: str, env_cfg: str, agent: str | None = None) -> None:
    """Register a task with its agent configurations for every learning library.

    Args:
        task_id: ``IsaacPC-<Verb>-<Object>-<Robot>-Direct``.
        env: Environment class, as ``module:Class``.
        env_cfg: Environment configuration, as ``module:Class``.
        agent: Task whose hyperparameters it learns with (:data:`isaaclab_pc.agents.ppo.TASKS`); None is the name of
            the folder that ``env`` is in, and the default ones unless that has its own.
    """
    agent = agent or env.split(":")[0].split(".")[-2]
    gym.register(
        id=task_id,
        entry_point=env,
        disable_env_checker=True,
        kwargs={
            "env_cfg_entry_point": env_cfg,
            "default_agent": "rsl_rl",
            "rsl_rl_cfg_entry_point": f"{_AGENTS}.rsl_rl_cfg:{agent}",
            "rsl_rl_large_cfg_entry_point": f"{_AGENTS}.rsl_rl_cfg:{agent}_large",
            "rl_games_cfg_entry_point": f"{_AGENTS}.rl_games_cfg:{agent}",
            "rl_games_large_cfg_entry_point": f"{_AGENTS}.rl_games_cfg:{agent}_large",
        },
    )
