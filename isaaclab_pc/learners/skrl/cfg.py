# SPDX-License-Identifier: BSD-3-Clause
"""skrl configurations, made from the hyperparameters in :mod:`isaaclab_pc.agents.ppo`. Loads no torch."""

from typing import Any

from isaaclab_pc.agents.ppo import PpoSettings


def make_cfg(settings: PpoSettings, experiment: str) -> dict[str, Any]:
    """Translate settings for skrl 2.1 to a new configuration in the layout of skrl's own runner.

    That runner refuses the model's class. Isaac Lab's wrapper for skrl passes on the groups ``policy`` and ``critic``
    alone, and a policy that is trained through it would see no cloud.
    """
    return {
        "seed": 42,
        "samples_per_update": settings.samples_per_update,
        "models": {
            "separate": True,
            "policy": {"class": "isaaclab_pc.learners.skrl.model:PointCloudModel", **settings.network()},
        },
        "memory": {"class": "RandomMemory", "memory_size": -1},
        "agent": _agent(settings, experiment),
        "trainer": {"class": "SequentialTrainer", "timesteps": settings.max_iterations * settings.horizon},
    }


def _agent(settings: PpoSettings, experiment: str) -> dict[str, Any]:
    adaptive = {"kl_threshold": settings.desired_kl, "min_lr": 1e-5, "max_lr": 1e-2, "lr_factor": 1.5}
    is_adaptive = settings.schedule == "adaptive"
    return {
        "class": "PPO",
        "rollouts": settings.horizon,
        "learning_epochs": settings.num_epochs,
        "mini_batches": settings.num_minibatches,
        "discount_factor": settings.gamma,
        "gae_lambda": settings.lam,
        "learning_rate": settings.learning_rate,
        "learning_rate_scheduler": "KLAdaptiveLR" if is_adaptive else None,
        "learning_rate_scheduler_kwargs": adaptive if is_adaptive else {},
        # The network normalizes vectors itself. skrl would also whiten each coordinate of each point by its own.
        "observation_preprocessor": None,
        "state_preprocessor": None,
        "value_preprocessor": None,
        "grad_norm_clip": settings.max_grad_norm,
        "ratio_clip": settings.clip,
        "value_clip": settings.clip,
        "entropy_loss_scale": settings.entropy_coef,
        "value_loss_scale": settings.value_coef,
        # Not the schedule's: it would end an epoch early.
        "kl_threshold": 0.0,
        "time_limit_bootstrap": True,
        "mixed_precision": False,
        # skrl writes nothing.
        "experiment": {"directory": experiment, "experiment_name": "", "write_interval": 0, "checkpoint_interval": 0},
    }
