# SPDX-License-Identifier: BSD-3-Clause
"""Whether a task is registered in a way that can be trained: gymnasium wraps it as the registration says."""

from collections.abc import Iterable
from typing import Any

from isaaclab_pc.errors import ConfigError

_FIT_FOR_MANY = (
    "ClipAction",
    "ClipReward",
    "OrderEnforcing",
    "PassiveEnvChecker",
    "TransformAction",
    "TransformObservation",
    "TransformReward",
)
"""Wrappers of gymnasium that take the tensors of many environments; the others are written for a single one."""


def check_registration(task: str) -> None:
    """Refuse wrappers that gymnasium would put around a task's environment and that fail, often late in a training.

    Raises:
        ConfigError: The message names the registered wrapper or limit.
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
    _refuse(task, (wrapper.entry_point for wrapper in spec.additional_wrappers))


def check_wrappers(task: str, env: Any) -> None:
    """Refuse the same of an environment that was made: an entry point may wrap it, too.

    Raises:
        ConfigError: The message names the wrapper.
    """
    import gymnasium as gym

    kinds = []
    while isinstance(env, gym.Wrapper):
        kinds.append(f"{type(env).__module__}:{type(env).__name__}")
        env = env.env
    _refuse(task, kinds)


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


def _refuse(task: str, wrappers: Iterable[str]) -> None:
    """Refuse gymnasium's wrappers, each ``module:Class``, that are not fit for many environments."""
    for wrapper in wrappers:
        module, _, name = wrapper.partition(":")
        if module.startswith("gymnasium.wrappers") and name not in _FIT_FOR_MANY:
            raise ConfigError(
                f"{task} is registered with gymnasium's wrapper {name}, which is written for a single environment: "
                "register it without."
            )
