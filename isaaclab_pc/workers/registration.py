# SPDX-License-Identifier: BSD-3-Clause
"""Whether a task is registered in a way that can be trained."""

from typing import Any

from isaaclab_pc.errors import ConfigError


def check_registration(task: str) -> None:
    """Refuse a registration for a single environment, which would fail late in a training.

    Raises:
        ConfigError: The message names the entry point or the limit.
    """
    import gymnasium as gym

    spec = gym.spec(task)
    if spec.entry_point is None:
        raise ConfigError(f"{task} is registered without an entry_point; a vector_entry_point alone cannot be used.")
    if spec.max_episode_steps is not None:
        raise ConfigError(
            f"{task} is registered with max_episode_steps={spec.max_episode_steps}: gymnasium's TimeLimit counts the "
            "steps of a single environment. Register it without, and set episode_length_s in its config."
        )


def check_kind(task: str, env_cfg: Any) -> None:
    """Refuse the config of a task of several agents, or of one without rewards.

    Raises:
        ConfigError: The message names the kind.
    """
    from isaaclab.envs import DirectMARLEnvCfg, ManagerBasedEnvCfg, ManagerBasedRLEnvCfg

    if isinstance(env_cfg, DirectMARLEnvCfg):
        raise ConfigError(
            f"{task} is a task of several agents ({type(env_cfg).__name__}); only single agents learn here."
        )
    if isinstance(env_cfg, ManagerBasedEnvCfg) and not isinstance(env_cfg, ManagerBasedRLEnvCfg):
        raise ConfigError(f"{task} has no rewards to learn from: {type(env_cfg).__name__} is no ManagerBasedRLEnvCfg.")
