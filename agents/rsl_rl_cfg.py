# SPDX-License-Identifier: BSD-3-Clause
"""RSL-RL configurations, made from the hyperparameters in :mod:`isaaclab_pc.agents.ppo` and ``distill``."""

from dataclasses import MISSING
from typing import Any

import torch
from isaaclab.utils import configclass
from isaaclab_rl.rsl_rl import RslRlBaseRunnerCfg, RslRlMLPModelCfg, RslRlOnPolicyRunnerCfg, RslRlPpoAlgorithmCfg

from isaaclab_pc.agents.distill import DistillSettings
from isaaclab_pc.agents.fine_tune import FineTuneSettings
from isaaclab_pc.agents.ppo import PpoSettings
from isaaclab_pc.learners import policy_groups

__all__ = [
    "DistillAlgorithmCfg",
    "DistillRunnerCfg",
    "FineTuneAlgorithmCfg",
    "PointCloudModelCfg",
    "PpoRunnerCfg",
    "StudentCfg",
    "make_cfg",
    "make_distill_cfg",
    "make_finetune_cfg",
]


@configclass
class StudentCfg(RslRlMLPModelCfg):
    """Configuration of :class:`~isaaclab_pc.learners.rsl_rl.model.PointCloudModel`, as far as imitation trains it."""

    class_name: str = "isaaclab_pc.learners.rsl_rl.model:PointCloudModel"
    """The model's class, resolved by RSL-RL."""

    encoder: dict[str, Any] = MISSING  # type: ignore[assignment]
    """Fields of :class:`~isaaclab_pc.agents.ppo.EncoderSettings`."""


@configclass
class PointCloudModelCfg(StudentCfg):
    """Configuration of :class:`~isaaclab_pc.learners.rsl_rl.model.PointCloudModel`, as PPO trains it."""

    aux_coef: float = 0.0
    """Weight of the loss that makes the latent predict the privileged state; 0 leaves the head out."""

    rnn_type: str | None = None
    """Memory between encoders and perceptron: ``gru``, ``lstm``, or None."""

    rnn_hidden_dim: int = 256
    """Size of the memory."""

    rnn_num_layers: int = 1
    """Layers of the memory."""


@configclass
class PpoRunnerCfg(RslRlOnPolicyRunnerCfg):
    """Isaac Lab's runner configuration with a number of samples that does not depend on the number of environments."""

    samples_per_update: int = MISSING  # type: ignore[assignment]
    """Samples per update: the horizon is chosen so that any number of environments makes about as many."""


@configclass
class FineTuneAlgorithmCfg(RslRlPpoAlgorithmCfg):
    """Configuration of :class:`~isaaclab_pc.learners.rsl_rl.fine_tuning.FineTuning`."""

    class_name: str = "isaaclab_pc.learners.rsl_rl.fine_tuning:FineTuning"
    """The algorithm's class, resolved by RSL-RL."""

    checkpoint: str = ""
    """Where the policy lies from which it goes on."""

    critic_iterations: int = MISSING  # type: ignore[assignment]
    """Iterations in which the critic learns alone."""

    critic_learning_rate: float = MISSING  # type: ignore[assignment]
    """The critic's learning rate; ``learning_rate`` is the actor's."""

    reference_coef: float = MISSING  # type: ignore[assignment]
    """Weight of the divergence from the policy that the actor began as, when it begins to learn."""

    reference_iterations: int = MISSING  # type: ignore[assignment]
    """Iterations of the actor until that weight has fallen to 0, in a line."""


@configclass
class DistillAlgorithmCfg:
    """Configuration of :class:`~isaaclab_pc.learners.rsl_rl.distillation.ReplayDistillation`.

    The fields without a text are those of :class:`~isaaclab_pc.agents.distill.DistillSettings`.
    """

    class_name: str = "isaaclab_pc.learners.rsl_rl.distillation:ReplayDistillation"
    """The algorithm's class, resolved by RSL-RL."""

    num_learning_epochs: int = MISSING  # type: ignore[assignment]
    """``num_epochs``."""

    num_mini_batches: int = MISSING  # type: ignore[assignment]
    """``num_minibatches``."""

    learning_rate: float = MISSING  # type: ignore[assignment]
    max_grad_norm: float = MISSING  # type: ignore[assignment]
    replay_samples: int = MISSING  # type: ignore[assignment]
    refill_samples: int = MISSING  # type: ignore[assignment]
    expert_share_samples: int = MISSING  # type: ignore[assignment]
    last_expert_share: float = MISSING  # type: ignore[assignment]
    turn_steps: float = MISSING  # type: ignore[assignment]
    fulfilled_steps: int = MISSING  # type: ignore[assignment]
    small_error: float = MISSING  # type: ignore[assignment]
    gripper_gain: float = MISSING  # type: ignore[assignment]


@configclass
class DistillRunnerCfg(RslRlBaseRunnerCfg):
    """Configuration of RSL-RL's runner for distillation, with a number of samples as in :class:`PpoRunnerCfg`."""

    class_name: str = "OnPolicyRunner"
    """RSL-RL's runner: its ``DistillationRunner`` only adds a check for a teacher that it loaded itself."""

    depth_iterations: int = MISSING  # type: ignore[assignment]
    """``max_iterations`` where the student sees depth images."""

    samples_per_update: int = MISSING  # type: ignore[assignment]
    """New samples per iteration."""

    student: StudentCfg = MISSING  # type: ignore[assignment]
    """The network that learns."""

    algorithm: DistillAlgorithmCfg = MISSING  # type: ignore[assignment]
    """How it learns."""

    teacher: RslRlMLPModelCfg = MISSING  # type: ignore[assignment]
    """The network of a policy that teaches; missing where the task's expert does."""

    teacher_checkpoint: str = ""
    """That policy's checkpoint; empty where the task's expert teaches."""


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


def make_finetune_cfg(settings: FineTuneSettings, experiment: str) -> PpoRunnerCfg:
    """Translate settings of PPO that goes on from a distilled policy for RSL-RL 5.5.

    Args:
        settings: The hyperparameters.
        experiment: Name of the folder for logs.

    Returns:
        A new configuration; the policy reads point clouds.
    """
    cfg = make_cfg(settings, experiment)
    inherited = {name: value for name, value in vars(cfg.algorithm).items() if name != "class_name"}
    # Clipped, values would move by the clip at most in an update, and they have a long way to those of a good policy.
    inherited["use_clipped_value_loss"] = False
    cfg.algorithm = FineTuneAlgorithmCfg(
        **inherited,
        critic_iterations=settings.critic_iterations,
        critic_learning_rate=settings.critic_learning_rate,
        reference_coef=settings.reference_coef,
        reference_iterations=settings.reference_iterations,
    )
    return cfg


def make_distill_cfg(settings: DistillSettings, experiment: str) -> DistillRunnerCfg:
    """Translate settings of distillation for RSL-RL 5.5.

    Args:
        settings: The hyperparameters.
        experiment: Name of the folder for logs.

    Returns:
        A new configuration; the student reads point clouds.
    """
    return DistillRunnerCfg(
        device="cuda:0" if torch.cuda.is_available() else "cpu",
        experiment_name=experiment,
        max_iterations=settings.max_iterations,
        depth_iterations=settings.depth_iterations,
        num_steps_per_env=settings.horizon,
        samples_per_update=settings.samples_per_update,
        save_interval=50,
        obs_groups={"student": policy_groups("points")},
        student=StudentCfg(
            hidden_dims=list(settings.hidden),
            activation=settings.activation,
            obs_normalization=True,
            encoder=settings.encoder.to_dict(),
            # As PPO's, which may go on from here.
            distribution_cfg=RslRlMLPModelCfg.GaussianDistributionCfg(init_std=settings.action_std, std_type="log"),
        ),
        algorithm=DistillAlgorithmCfg(
            num_learning_epochs=settings.num_epochs,
            num_mini_batches=settings.num_minibatches,
            learning_rate=settings.learning_rate,
            max_grad_norm=settings.max_grad_norm,
            replay_samples=settings.replay_samples,
            refill_samples=settings.refill_samples,
            expert_share_samples=settings.expert_share_samples,
            last_expert_share=settings.last_expert_share,
            turn_steps=settings.turn_steps,
            fulfilled_steps=settings.fulfilled_steps,
            small_error=settings.small_error,
            gripper_gain=settings.gripper_gain,
        ),
    )
