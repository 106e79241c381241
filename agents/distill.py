# SPDX-License-Identifier: BSD-3-Clause
"""The hyperparameters of distillation, and of PPO that starts from a distilled policy. Loads no torch."""

from dataclasses import dataclass, field, replace

from isaaclab_pc.agents.ppo import EncoderSettings, PpoSettings

_ENCODER = EncoderSettings(point_channels=(64, 128), point_frequencies=(1.0, 4.0, 16.0))
"""The student must see to a few millimetres where the expert's cases meet."""


@dataclass(kw_only=True)
class ImitationCfg:
    """``agent.algorithm``: see :class:`~isaaclab_pc.learners.rsl_rl.distillation.ReplayDistillation`."""

    class_name: str = "isaaclab_pc.learners.rsl_rl.distillation:ReplayDistillation"
    """The algorithm's class, resolved by RSL-RL."""

    num_learning_epochs: int = 5
    """Minibatches that are learned from per iteration, as a multiple of ``num_mini_batches``: they come out of all
    samples that are held, and not of the new ones alone."""

    num_mini_batches: int = 4
    """Minibatches that the new samples of an iteration would make."""

    learning_rate: float = 1e-3
    """Learning rate of Adam at the start."""

    constant_share: float = 2.0 / 3.0
    """Share of a run before the learning rate falls."""

    max_grad_norm: float = 1.0
    """Largest norm of the gradient."""

    replay_samples: int = 400_000
    """Samples that are held; the oldest go first."""

    demos: str | None = None
    """File of demonstrations to learn from alone; None: the teacher is asked."""

    refill_samples: int = 40_960
    """Samples that all ranks collect after a resume, which starts with an empty replay, before the student learns
    again."""

    expert_share_samples: int = 100_000
    """Samples until the teacher acts least; its share falls from 1 in a line."""

    last_expert_share: float = 0.05
    """Share of the steps in which the teacher acts from then on."""

    turn_steps: float = 15.0
    """Mean steps that teacher or student act at a stretch before the actor is drawn anew."""

    fulfilled_steps: int = 15
    """Steps in which a task is fulfilled before an episode of the training ends."""

    small_error: float = 0.1
    """Error of an action below which the loss is squared, and above which it is absolute."""

    long_motion_discount: float = 0.0
    """How much less the errors of long motions count: a sample weighs as 1 / (1 + long_motion_discount * length), with
    the length of the teacher's action without the gripper. 0 weighs all alike."""

    gripper_gain: float = 4.0
    """The logit of an open gripper where the student's last action is 1."""


@dataclass(frozen=True, kw_only=True)
class DistillSettings:
    """Imitation of a teacher by aggregation. The defaults suit two CPU cores."""

    max_iterations: int = 90
    """Iterations of a whole run, over which the learning rate decays."""

    depth_iterations: int = 200
    """Those where the student sees depth images, from which it learns more slowly."""

    horizon: int = 16
    """Steps per environment and iteration, where the batch plan does not change it."""

    samples_per_update: int = 4096
    """New samples per iteration, whatever the number of environments."""

    algorithm: ImitationCfg = field(default_factory=ImitationCfg)
    """How the student imitates; configs get a copy."""

    action_std: float = 0.1
    """Standard deviation of the student's actions while it trains."""

    hidden: tuple[int, ...] = (256, 128)
    """Hidden layers of the student, after the encoders."""

    activation: str = "elu"
    """Activation of the hidden layers: elu, relu, tanh or silu."""

    encoder: EncoderSettings = _ENCODER
    """The student's encoders."""

    @property
    def minibatch_size(self) -> int:
        """Samples per gradient step."""
        return self.samples_per_update // self.algorithm.num_mini_batches


DEFAULT = DistillSettings()
"""Hyperparameters of most tasks; found with ``lift``."""

REACH = DistillSettings(max_iterations=30, depth_iterations=90, algorithm=ImitationCfg(expert_share_samples=40_000))
"""For ``reach``, which is learned in a few iterations."""

PRECISE = DistillSettings(
    max_iterations=170,
    action_std=0.05,
    algorithm=ImitationCfg(num_mini_batches=8, small_error=0.02, fulfilled_steps=150),
)
"""For ``peg_insert``, where millimetres count: small errors weigh as much as large ones, in more steps on fewer samples
each."""

SHAPES = DistillSettings(
    max_iterations=240,
    algorithm=ImitationCfg(
        num_learning_epochs=8,
        replay_samples=1_200_000,
        expert_share_samples=120_000,
        fulfilled_steps=40,
        small_error=0.2,
    ),
    hidden=(512, 256),
)
"""For ``lift_any``, where many shapes are to be told apart, and it is harder to stay at the goal than to get there."""


def distill_sizes(settings: DistillSettings) -> dict[str, DistillSettings]:
    """Return hyperparameters by the value of the setting ``agent``: these, and ``large`` ones for a GPU."""
    algorithm = settings.algorithm
    large = replace(
        settings,
        samples_per_update=8 * settings.samples_per_update,
        algorithm=replace(
            algorithm,
            replay_samples=4 * algorithm.replay_samples,
            refill_samples=8 * algorithm.refill_samples,
            expert_share_samples=8 * algorithm.expert_share_samples,
        ),
        hidden=(512, 256, 128),
        encoder=replace(settings.encoder, point_channels=(64, 128, 256)),
    )
    return {"default": settings, "large": large}


def fine_tuning(rewards: PpoSettings, student: DistillSettings) -> PpoSettings:
    """Return the hyperparameters of PPO that starts from a distilled policy, in small steps and with little noise.

    ``rewards`` give rewards, samples and the critic, and ``student``, which the policy was distilled with, its network.
    """
    return replace(
        rewards,
        max_iterations=100,
        learning_rate=1e-5,
        schedule="adaptive",
        init_std=student.action_std,
        aux_coef=0.0,
        actor_hidden=student.hidden,
        activation=student.activation,
        encoder=student.encoder,
    )
