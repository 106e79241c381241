# SPDX-License-Identifier: BSD-3-Clause
"""The hyperparameters of PPO that goes on from a distilled policy. Loads no torch."""

from dataclasses import dataclass, fields

from isaaclab_pc.agents.distill import DistillSettings
from isaaclab_pc.agents.ppo import PpoSettings

__all__ = ["FineTuneSettings", "fine_tuning"]


@dataclass(frozen=True, kw_only=True)
class FineTuneSettings(PpoSettings):
    """PPO in small steps, with the student's network. See :class:`isaaclab_pc.learners.rsl_rl.fine_tuning.FineTuning`."""

    critic_iterations: int
    """Iterations at the start in which the critic learns alone: a critic that knows nothing yet would lead the policy
    away from what it can do."""

    critic_learning_rate: float
    """The critic's learning rate; the actor's follows the policy's change."""

    reference_coef: float
    """Weight of the KL divergence from the policy that the actor began as, when it begins to learn."""

    reference_iterations: int
    """Iterations of the actor until that weight has fallen to 0, in a line."""


def fine_tuning(rewards: PpoSettings, student: DistillSettings) -> FineTuneSettings:
    """Return the hyperparameters for a task.

    Args:
        rewards: Those of PPO from nothing: what it says of rewards, samples and the critic holds here, too.
        student: Those that the policy was distilled with: the network is the student's.

    Returns:
        The hyperparameters; actions are nearly those of the student, and the learning rate follows the policy's change.
    """
    inherited = {field.name: getattr(rewards, field.name) for field in fields(rewards)}
    changes = {
        "max_iterations": 100,
        "learning_rate": 1e-5,
        "schedule": "adaptive",
        "init_std": student.action_std,
        "aux_coef": 0.0,
        "actor_hidden": student.hidden,
        "activation": student.activation,
        "encoder": student.encoder,
    }
    return FineTuneSettings(
        **{**inherited, **changes},
        critic_iterations=10,
        critic_learning_rate=1e-3,
        reference_coef=1.0,
        reference_iterations=90,
    )
