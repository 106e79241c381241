# SPDX-License-Identifier: BSD-3-Clause
"""RSL-RL configurations, made from the hyperparameters in :mod:`isaaclab_pc.agents.ppo`."""

from dataclasses import MISSING
from typing import Any

import torch
from isaaclab.utils import configclass
from isaaclab_rl.rsl_rl import RslRlMLPModelCfg, RslRlOnPolicyRunnerCfg, RslRlPpoAlgorithmCfg

from isaaclab_pc.agents.ppo import PpoSettings
from isaaclab_pc.runners import policy_groups

__all__ = ["PointCloudModelCfg", "PpoRunnerCfg", "make_cfg"]


@configclass
class PointCloudModelCfg(RslRlMLPModelCfg):
    """Configuration of :class:`~isaaclab_pc.agents.rsl_rl_model.PointCloudModel`."""

    class_name: str = "isaaclab_pc.agents.rsl_rl_model:PointCloudModel"
    """The model's class, resolved by RSL-RL."""

    encoder: dict[str, Any] = MISSING  # type: ignore[assignment]
    """Fields of :class:`~isaaclab_pc.agents.ppo.EncoderSettings`."""

    aux_coef: float = 0.0
    """Weight of the loss that makes the latent predict the privileged state; 0 leaves the head out."""


@configclass
class PpoRunnerCfg(RslRlOnPolicyRunnerCfg):
    """Isaac Lab's runner configuration with a number of samples that does not depend on the number of environments."""

    samples_per_update: int = MISSING  # type: ignore[assignment]
    """Samples per update: the horizon is chosen so that any number of environments makes about as many."""


def make_cfg(settings: PpoSettings, experiment: str) -> PpoRunnerCfg:
    """Translate settings for RSL-RL 5.5.

    Args:
        settings: The hyperparameters.
        experiment: Name of the folder for logs.

    Returns:
        A new configuration; the policy reads point clouds.
    """
    return PpoRunnerCfg(
        device="cuda:0" if torch.cuda.is_available() else "cpu",
        experiment_name=experiment,
        max_iterations=settings.max_iterations,
        num_steps_per_env=settings.horizon,
        samples_per_update=settings.samples_per_update,
        save_interval=50,
        obs_groups={"actor": policy_groups("points"), "critic": ["critic"]},
        actor=PointCloudModelCfg(
            hidden_dims=list(settings.actor_hidden),
            activation=settings.activation,
            obs_normalization=True,
            encoder=settings.encoder.to_dict(),
            aux_coef=settings.aux_coef,
            # RL-Games learns the logarithm, too.
            distribution_cfg=RslRlMLPModelCfg.GaussianDistributionCfg(init_std=settings.init_std, std_type="log"),
        ),
        critic=RslRlMLPModelCfg(
            hidden_dims=list(settings.critic_hidden), activation=settings.activation, obs_normalization=True
        ),
        algorithm=RslRlPpoAlgorithmCfg(
            num_learning_epochs=settings.num_epochs,
            num_mini_batches=settings.num_minibatches,
            learning_rate=settings.learning_rate,
            schedule=settings.schedule,
            desired_kl=settings.desired_kl,
            gamma=settings.gamma,
            lam=settings.lam,
            entropy_coef=settings.entropy_coef,
            clip_param=settings.clip,
            value_loss_coef=settings.value_coef,
            use_clipped_value_loss=True,
            max_grad_norm=settings.max_grad_norm,
        ),
    )
