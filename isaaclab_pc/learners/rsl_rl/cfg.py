# SPDX-License-Identifier: BSD-3-Clause
"""RSL-RL configurations, made from the hyperparameters in :mod:`isaaclab_pc.agents.ppo` and ``distill``."""

from copy import deepcopy
from dataclasses import MISSING
from typing import Any

import torch
from isaaclab.utils import configclass
from isaaclab_rl.rsl_rl import RslRlBaseRunnerCfg, RslRlMLPModelCfg, RslRlOnPolicyRunnerCfg, RslRlPpoAlgorithmCfg

from isaaclab_pc.agents.distill import DistillSettings, ImitationCfg
from isaaclab_pc.agents.observation_groups import policy_groups
from isaaclab_pc.agents.ppo import EncoderSettings, PpoSettings


@configclass
class StudentCfg(RslRlMLPModelCfg):
    """Configuration of :class:`~isaaclab_pc.learners.rsl_rl.model.PointCloudModel` for imitation."""

    class_name: str = "isaaclab_pc.learners.rsl_rl.model:PointCloudModel"
    """The model's class, resolved by RSL-RL."""

    encoder: dict[str, Any] = MISSING  # type: ignore[assignment]
    """Fields of :class:`~isaaclab_pc.agents.ppo.EncoderSettings`."""


@configclass
class PointCloudModelCfg(StudentCfg):
    """Configuration of :class:`~isaaclab_pc.learners.rsl_rl.model.PointCloudModel` for PPO."""

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
    """Checkpoint of the policy to start from; read when a new run begins, not when one resumes."""

    critic_iterations: int = 10
    """Iterations in which the critic learns alone."""

    critic_learning_rate: float = 1e-3
    """The critic's learning rate; ``learning_rate``, and its schedule, are the actor's."""

    reference_coef: float = 1.0
    """Weight of the KL divergence from the first policy, when the actor begins to learn."""

    reference_iterations: int = 90
    """Iterations of the actor until that weight has fallen to 0, in a line."""


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

    algorithm: ImitationCfg = MISSING  # type: ignore[assignment]
    """How it learns."""

    teacher: RslRlMLPModelCfg = MISSING  # type: ignore[assignment]
    """The network of a policy that teaches; missing where the task's expert does."""

    teacher_checkpoint: str = ""
    """That policy's checkpoint; empty where the task's expert teaches."""


def make_cfg(
    settings: PpoSettings, experiment: str, algorithm: type[RslRlPpoAlgorithmCfg] = RslRlPpoAlgorithmCfg
) -> PpoRunnerCfg:
    """Translate settings for RSL-RL 5.5 to a new configuration; the policy reads point clouds."""
    hidden = settings.actor_hidden
    actor = _network(PointCloudModelCfg, settings.encoder, hidden, settings.activation, settings.init_std)
    actor.aux_coef = settings.aux_coef
    return PpoRunnerCfg(
        device=_device(),
        experiment_name=experiment,
        max_iterations=settings.max_iterations,
        num_steps_per_env=settings.horizon,
        samples_per_update=settings.samples_per_update,
        save_interval=50,
        obs_groups={"actor": policy_groups("points"), "critic": ["critic"]},
        actor=actor,
        critic=RslRlMLPModelCfg(
            hidden_dims=list(settings.critic_hidden), activation=settings.activation, obs_normalization=True
        ),
        algorithm=algorithm(
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


def make_finetune_cfg(settings: PpoSettings, experiment: str) -> PpoRunnerCfg:
    """Translate settings of PPO that starts from a distilled policy, as :func:`make_cfg` does."""
    cfg = make_cfg(settings, experiment, FineTuneAlgorithmCfg)
    # Clipped, values would move by the clip at most in an update, and they have a long way to those of a good policy.
    cfg.algorithm.use_clipped_value_loss = False
    return cfg


def make_distill_cfg(settings: DistillSettings, experiment: str) -> DistillRunnerCfg:
    """Translate settings of distillation, as :func:`make_cfg` does; the student reads point clouds."""
    return DistillRunnerCfg(
        device=_device(),
        experiment_name=experiment,
        max_iterations=settings.max_iterations,
        depth_iterations=settings.depth_iterations,
        num_steps_per_env=settings.horizon,
        samples_per_update=settings.samples_per_update,
        save_interval=50,
        obs_groups={"student": policy_groups("points")},
        student=_network(StudentCfg, settings.encoder, settings.hidden, settings.activation, settings.action_std),
        algorithm=deepcopy(settings.algorithm),
    )


def _device() -> str:
    return "cuda:0" if torch.cuda.is_available() else "cpu"


def _network(
    kind: type[Any], encoder: EncoderSettings, hidden: tuple[int, ...], activation: str, action_std: float
) -> Any:
    """Return a policy's network; all parametrize the noise alike, as one may start from another."""
    return kind(
        hidden_dims=list(hidden),
        activation=activation,
        obs_normalization=True,
        encoder=encoder.to_dict(),
        # RL-Games learns the logarithm, too.
        distribution_cfg=RslRlMLPModelCfg.GaussianDistributionCfg(init_std=action_std, std_type="log"),
    )
