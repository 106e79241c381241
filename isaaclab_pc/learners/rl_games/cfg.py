# SPDX-License-Identifier: BSD-3-Clause
"""RL-Games configurations, made from the hyperparameters in :mod:`isaaclab_pc.agents.ppo`."""

from typing import Any

from isaaclab_pc.agents.ppo import PpoSettings
from isaaclab_pc.utils.packages import is_installed


def make_cfg(settings: PpoSettings, experiment: str) -> dict[str, Any]:
    """Translate settings for RL-Games 1.6 to a new configuration, and register their network with RL-Games."""
    # Isaac Lab's own `isaaclab train` needs it, too, and asks for the configuration alone.
    if is_installed("rl_games"):
        from isaaclab_pc.learners.rl_games.network import register

        register()

    network = settings.network()
    return {
        "params": {
            "seed": 42,
            "algo": {"name": "a2c_continuous"},
            "model": {"name": "continuous_a2c_logstd"},
            "network": {
                "name": "isaaclab_pc_point_cloud",
                **network,
                "rnn_type": None,
                "rnn_hidden_dim": 256,
                "rnn_num_layers": 1,
            },
            # The network is given all groups in a dict, the critic's included, and picks what each part reads.
            "env": {
                "obs_groups": {"obs": [*network["actor"], *network["critic"]], "states": []},
                "concate_obs_groups": False,
            },
            "load_checkpoint": False,
            "load_path": "",
            # 0: the process that starts the training sets the number of threads.
            "torch_threads": 0,
            "config": _config(settings, experiment),
        }
    }


def _config(settings: PpoSettings, experiment: str) -> dict[str, Any]:
    return {
        "name": experiment,
        "env_name": "rlgpu",
        "device": "cuda:0",
        "device_name": "cuda:0",
        "multi_gpu": False,
        "mixed_precision": False,
        "torch_compile": False,
        # The network normalizes vectors itself. RL-Games would also whiten each coordinate of each point by its own.
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
        "minibatch_size_per_env": max(1, settings.horizon // settings.num_minibatches),
        "mini_epochs": settings.num_epochs,
        "seq_length": 1,
        "max_epochs": settings.max_iterations,
        "save_frequency": 50,
        "save_best_after": 50,
        "print_stats": True,
    }
