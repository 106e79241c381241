# SPDX-License-Identifier: BSD-3-Clause
"""The hyperparameters of SAC. Loads no torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from isaaclab_pc.agents.ppo import EncoderSettings, UpdateSize

__all__ = ["DEFAULT", "REACH", "SAC_AGENTS", "SacSettings", "sac_sizes"]


@dataclass(frozen=True, kw_only=True)
class SacSettings(UpdateSize):
    """Soft actor-critic (Haarnoja et al., 2018) with a learned temperature and an asymmetric actor and critic.

    Both critics read the privileged state, so only the actor encodes clouds. The defaults suit two CPU cores.
    """

    max_iterations: int = 300
    """Iterations of a whole run, each a rollout and its gradient steps."""

    samples_per_update: int = 2048
    """New samples per iteration, whatever the number of environments: the batch plan adapts the horizon to it."""

    horizon: int = 32
    """Steps per environment and iteration, where the batch plan does not change it."""

    num_epochs: int = 8
    """Gradient steps per iteration, as a multiple of ``num_minibatches``: they come out of all samples that are held,
    and not of the new ones alone."""

    learning_rate: float = 1e-3
    """Learning rate of Adam, for the policy, the critics and the temperature."""

    gamma: float = 0.9
    """Discount per step."""

    polyak: float = 0.01
    """Share of the critics that goes into their targets in a gradient step."""

    init_entropy_coef: float = 0.1
    """Temperature at the start: what a nat of entropy is worth, in rewards."""

    replay_samples: int = 200_000
    """Samples that are held; the oldest go first."""

    refill_samples: int = 20_480
    """Samples that are collected after a resume, which starts with an empty replay, before the policy goes on
    learning."""

    actor_hidden: tuple[int, ...] = (128, 64)
    """Hidden layers of the policy, after the encoders."""

    critic_hidden: tuple[int, ...] = (128, 128)
    """Hidden layers of each critic."""

    activation: str = "elu"
    """Activation of the hidden layers: elu, relu, tanh or silu."""

    encoder: EncoderSettings = field(default_factory=EncoderSettings)
    """The policy's encoders."""


DEFAULT = SacSettings()
"""What most tasks learn with. The discount is that of PPO."""

REACH = SacSettings(max_iterations=100, gamma=0.97)
"""For ``reach``: few iterations."""

SAC_AGENTS: Mapping[str, SacSettings] = {"reach": REACH}
"""Agents of :data:`isaaclab_pc.agents.ppo.AGENTS` whose tasks have other hyperparameters than most."""


def sac_sizes(settings: SacSettings) -> dict[str, SacSettings]:
    """Return the hyperparameters by the value of the setting ``agent``.

    Args:
        settings: The hyperparameters for a CPU.

    Returns:
        ``default``, the same ones, and ``large``, with networks and samples for a GPU.
    """
    large = replace(
        settings,
        horizon=8,
        samples_per_update=8 * 4096,
        num_minibatches=8,
        replay_samples=5 * settings.replay_samples,
        refill_samples=16 * settings.refill_samples,
        actor_hidden=(256, 128, 64),
        critic_hidden=(256, 256, 128),
        encoder=replace(settings.encoder, point_channels=(64, 128, 256)),
    )
    return {"default": settings, "large": large}
