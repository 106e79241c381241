# SPDX-License-Identifier: BSD-3-Clause
"""Stable-Baselines3 configurations, made from the hyperparameters in :mod:`isaaclab_pc.agents.ppo`. Loads no torch."""

from typing import Any

from isaaclab_pc.agents.ppo import PpoSettings


def make_cfg(settings: PpoSettings, experiment: str) -> dict[str, Any]:
    """Translate settings for Stable-Baselines3 2 to a new configuration, which has no field for the experiment's name.

    As Isaac Lab's own, it holds the arguments of ``PPO``, and ``n_timesteps`` for those of ``learn``.
    """
    return {
        "seed": 42,
        "samples_per_update": settings.samples_per_update,
        "n_timesteps": settings.max_iterations * settings.samples_per_update,
        "policy": "isaaclab_pc.learners.sb3.policy:PointCloudPolicy",
        # Its own is 1e-5.
        "policy_kwargs": {"net_arch": settings.network(), "optimizer_kwargs": {"eps": 1e-8}},
        "n_steps": settings.horizon,
        "n_minibatches": settings.num_minibatches,
        "n_epochs": settings.num_epochs,
        "learning_rate": settings.learning_rate,
        # Ours: Stable-Baselines3 knows no learning rate that follows the divergence, and its target_kl ends an update.
        "desired_kl": settings.desired_kl if settings.schedule == "adaptive" else None,
        "gamma": settings.gamma,
        "gae_lambda": settings.lam,
        "clip_range": settings.clip,
        "clip_range_vf": settings.clip,
        "ent_coef": settings.entropy_coef,
        "vf_coef": settings.value_coef,
        "max_grad_norm": settings.max_grad_norm,
        # The rollout normalizes all of its advantages together.
        "normalize_advantage": False,
    }
