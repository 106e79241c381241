# SPDX-License-Identifier: BSD-3-Clause
"""RSL-RL configurations. ``gym.register`` names one by its task, as in ``isaaclab_pc.agents.rsl_rl_cfg:reach``."""

from collections.abc import Callable
from dataclasses import MISSING
from functools import partial
from typing import Any

import torch
from isaaclab.utils import configclass
from isaaclab_rl.rsl_rl import RslRlMLPModelCfg, RslRlOnPolicyRunnerCfg, RslRlPpoAlgorithmCfg

from isaaclab_pc.agents import ppo

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
    """Isaac Lab's runner configuration, and the number of samples that the batch plan keeps to."""

    samples_per_update: int = MISSING  # type: ignore[assignment]
    """Samples per update, whatever the number of environments."""


def make_cfg(settings: ppo.PpoSettings, experiment: str) -> PpoRunnerCfg:
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
        obs_groups={"actor": ppo.obs_groups("points"), "critic": ["critic"]},
        actor=PointCloudModelCfg(
            hidden_dims=list(settings.actor_hidden),
            activation=settings.activation,
            obs_normalization=True,
            encoder=settings.encoder.to_dict(),
            aux_coef=settings.aux_coef,
            # The logarithm is what RL-Games learns, too.
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


def __getattr__(agent: str) -> Callable[[], PpoRunnerCfg]:
    """Return the function that makes a task's configuration: ``<task>`` for a CPU, ``<task>_large`` for a GPU.

    Tasks name it as a string, so a new task needs nothing here: see :func:`~isaaclab_pc.agents.ppo.settings_of`.
    """
    if agent.startswith("_"):
        raise AttributeError(agent)
    return partial(make_cfg, *ppo.settings_of(agent))
