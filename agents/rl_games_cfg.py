# SPDX-License-Identifier: BSD-3-Clause
"""RL-Games configurations. ``gym.register`` names one by its task, as in ``isaaclab_pc.agents.rl_games_cfg:reach``.

Calling one also registers the network, so that Isaac Lab's own ``isaaclab train --rl_library rl_games`` finds it.
"""

import importlib.util
from collections.abc import Callable
from functools import partial
from typing import Any

from isaaclab_pc.agents import ppo

__all__ = ["make_cfg"]


def make_cfg(settings: ppo.PpoSettings, experiment: str) -> dict[str, Any]:
    """Translate settings for RL-Games 1.6.

    Args:
        settings: The hyperparameters.
        experiment: Name of the folder for logs.

    Returns:
        A new configuration; the policy reads point clouds.
    """
    if importlib.util.find_spec("rl_games") is not None:
        from isaaclab_pc.agents.rl_games_network import register

        register()
    actor = ppo.obs_groups("points")
    return {
        "params": {
            "seed": 42,
            "algo": {"name": "a2c_continuous"},
            "model": {"name": "continuous_a2c_logstd"},
            "network": {
                "name": "isaaclab_pc_point_cloud",
                "actor": actor,
                "critic": ["critic"],
                "encoder": settings.encoder.to_dict(),
                "actor_hidden": list(settings.actor_hidden),
                "critic_hidden": list(settings.critic_hidden),
                "activation": settings.activation,
                "init_std": settings.init_std,
                "aux_coef": settings.aux_coef,
            },
            # The network takes the groups apart itself, the critic's included.
            "env": {"obs_groups": {"obs": [*actor, "critic"], "states": []}, "concate_obs_groups": False},
            "load_checkpoint": False,
            "load_path": "",
            # Leave the number of threads to the process that starts the training.
            "torch_threads": 0,
            "config": _config(settings, experiment),
        }
    }


def _config(settings: ppo.PpoSettings, experiment: str) -> dict[str, Any]:
    """Return RL-Games' ``config`` section."""
    return {
        "name": experiment,
        "env_name": "rlgpu",
        "device": "cuda:0",
        "device_name": "cuda:0",
        "multi_gpu": False,
        "mixed_precision": False,
        "torch_compile": False,
        # The network normalizes vectors; RL-Games would normalize every coordinate of every point by itself.
        "normalize_input": False,
        "normalize_value": False,
        "normalize_advantage": True,
        "value_bootstrap": True,
        "num_actors": -1,
        "reward_shaper": {"scale_value": 1.0},
        "gamma": settings.gamma,
        "tau": settings.lam,
        "learning_rate": settings.learning_rate,
        "lr_schedule": settings.schedule,
        "schedule_type": "legacy",
        "kl_threshold": settings.desired_kl,
        "e_clip": settings.clip,
        "clip_value": True,
        "entropy_coef": settings.entropy_coef,
        # RL-Games halves the squared error.
        "critic_coef": 2.0 * settings.value_coef,
        "truncate_grads": True,
        "grad_norm": settings.max_grad_norm,
        "bounds_loss_coef": 0.0,
        "clip_actions": False,
        "horizon_length": settings.horizon,
        "samples_per_update": settings.samples_per_update,
        "num_minibatches": settings.num_minibatches,
        "minibatch_size_per_env": settings.horizon // settings.num_minibatches,
        "mini_epochs": settings.num_epochs,
        "seq_length": 1,
        "max_epochs": settings.max_iterations,
        "save_frequency": 50,
        "save_best_after": 50,
        "print_stats": True,
    }


def __getattr__(agent: str) -> Callable[[], dict[str, Any]]:
    """Return the function that makes a task's configuration: ``<task>`` for a CPU, ``<task>_large`` for a GPU.

    Tasks name it as a string, so a new task needs nothing here: see :func:`~isaaclab_pc.agents.ppo.settings_of`.
    """
    if agent.startswith("_"):
        raise AttributeError(agent)
    return partial(make_cfg, *ppo.settings_of(agent))
