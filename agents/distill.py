# SPDX-License-Identifier: BSD-3-Clause
"""The hyperparameters of distillation. Loads no torch."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from isaaclab_pc.agents.ppo import EncoderSettings, UpdateSize

__all__ = ["DEFAULT", "DISTILL_AGENTS", "PRECISE", "REACH", "DistillSettings", "distill_sizes"]


_ENCODER = EncoderSettings(point_channels=(64, 128), point_frequencies=(1.0, 4.0, 16.0))
"""The student must see to a few millimetres where the expert's cases meet."""


@dataclass(frozen=True, kw_only=True)
class DistillSettings(UpdateSize):
    """Imitation of a teacher by aggregation: see :class:`isaaclab_pc.learners.rsl_rl.distillation.ReplayDistillation`.

    The defaults suit two CPU cores.
    """

    max_iterations: int = 90
    """Iterations of a whole run, over which the learning rate decays."""

    depth_iterations: int = 200
    """Those where the student sees depth images, from which it learns more slowly."""

    horizon: int = 16
    """Steps per environment and iteration, where the batch plan does not change it."""

    num_epochs: int = 5
    """Minibatches that are learned from per iteration, as a multiple of ``num_minibatches``: they come out of all
    samples that are held, and not of the new ones alone."""

    learning_rate: float = 1e-3
    """Learning rate of Adam at the start; it falls over the last third of a run."""

    max_grad_norm: float = 1.0
    """Largest norm of the gradient."""

    replay_samples: int = 400_000
    """Samples that are held; the oldest go first."""

    refill_samples: int = 40_960
    """Samples that are collected after a resume, which starts with an empty replay, before the student goes on
    learning."""

    expert_share_samples: int = 100_000
    """Samples until the teacher acts least; its share falls from 1 in a line."""

    last_expert_share: float = 0.05
    """Share of the steps in which the teacher acts from then on."""

    turn_steps: float = 15.0
    """Mean steps that teacher or student act at a stretch."""

    fulfilled_steps: int = 15
    """Steps in which a task is fulfilled before an episode of the training ends."""

    small_error: float = 0.1
    """Error of an action below which the loss is squared, and above which it is absolute."""

    gripper_gain: float = 4.0
    """The logit of an open gripper where the student's last action is 1."""

    action_std: float = 0.1
    """Standard deviation of the student's actions while it trains."""

    hidden: tuple[int, ...] = (256, 128)
    """Hidden layers of the student, after the encoders."""

    activation: str = "elu"
    """Activation of the hidden layers: elu, relu, tanh or silu."""

    encoder: EncoderSettings = _ENCODER
    """The student's encoders."""


DEFAULT = DistillSettings()
"""Hyperparameters of most tasks; found with ``lift``."""

REACH = DistillSettings(max_iterations=30, depth_iterations=90, expert_share_samples=40_000)
"""For ``reach``, which is learned in a few iterations."""

PRECISE = DistillSettings(max_iterations=170, num_minibatches=8, small_error=0.02, action_std=0.05, fulfilled_steps=150)
"""For ``peg_insert``, where millimetres count: what is small in another task's actions is learned as exactly as what is
large, in more steps on fewer samples each."""

DISTILL_AGENTS: Mapping[str, DistillSettings] = {"reach": REACH, "precise": PRECISE}
"""Agents of :data:`isaaclab_pc.agents.ppo.AGENTS` that need other hyperparameters for distillation."""


def distill_sizes(settings: DistillSettings) -> dict[str, DistillSettings]:
    """Return the hyperparameters by the value of the setting ``agent``.

    Args:
        settings: The hyperparameters for a CPU.

    Returns:
        ``default``, the same ones, and ``large``, with networks and samples for a GPU.
    """
    large = replace(
        settings,
        samples_per_update=8 * settings.samples_per_update,
        replay_samples=4 * settings.replay_samples,
        refill_samples=8 * settings.refill_samples,
        expert_share_samples=8 * settings.expert_share_samples,
        hidden=(512, 256, 128),
        encoder=replace(settings.encoder, point_channels=(64, 128, 256)),
    )
    return {"default": settings, "large": large}
