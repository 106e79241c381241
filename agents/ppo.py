# SPDX-License-Identifier: BSD-3-Clause
"""The hyperparameters of every agent, once for all learning libraries. Loads no torch.

``learners/<runner>/cfg.py`` translates them for a library; a value means the same in every one.
"""

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from isaaclab_pc.agents.observation_groups import policy_groups


@dataclass(frozen=True, kw_only=True)
class EncoderSettings:
    """Size and precision of the policy's encoders."""

    point_encoder: str = "pointnet"
    """Kind of the point-cloud encoder: see :mod:`isaaclab_pc.agents.point_encoders`."""

    point_channels: tuple[int, ...] = (32, 64)
    """Layers of the point-cloud perceptron; the last one is the size of the latent."""

    point_scale: float = 4.0
    """Factor on the points' coordinates [1/m]: a workspace of half a metre spans about [-1, 1]."""

    point_frequencies: tuple[float, ...] = ()
    """Spatial frequencies of the sines and cosines that each coordinate gets besides [1/m]: see
    :class:`~isaaclab_pc.agents.point_encoders.PointEmbedding`."""

    depth_channels: tuple[int, ...] = (16, 32, 32)
    """Output channels of the depth encoder's convolutions."""

    depth_latent: int = 64
    """Size of the depth encoder's latent."""

    chunk: int | Literal["auto"] = "auto"
    """Most clouds or images to hold the activations of at once; of a larger minibatch, the backward pass computes them
    again. auto: as many as make 2^20 rows of activations; ``pointnet`` on a GPU 2^23."""

    precision: Literal["float32", "bf16"] = "float32"
    """Precision that the encoders compute in. bf16: autocast to bfloat16, which halves their activations; weights,
    positions and latents stay float32."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and numbers, as configs hold them."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}


@dataclass(frozen=True, kw_only=True)
class PpoSettings:
    """PPO with an asymmetric actor and critic: the critic reads the privileged state, so only the actor encodes clouds.

    The defaults suit two CPU cores.
    """

    max_iterations: int
    """Updates of the policy in a whole run."""

    horizon: int = 32
    """Steps per environment and update, where the batch plan does not change it."""

    samples_per_update: int = 4096
    """Samples per update, whatever the number of environments: the batch plan adapts the horizon to it."""

    num_minibatches: int = 4
    """Minibatches that they make."""

    num_epochs: int = 5
    """Passes over the samples per update."""

    learning_rate: float = 1e-3
    """Learning rate of Adam; with the adaptive schedule, the one that it starts from."""

    schedule: Literal["adaptive", "fixed"] = "adaptive"
    """``adaptive`` keeps the policy's change per update near ``desired_kl``."""

    desired_kl: float = 0.01
    """KL divergence between the policy that acted and the updated one."""

    gamma: float = 0.97
    """Discount per step."""

    lam: float = 0.95
    """Decay of the generalized advantage estimate."""

    clip: float = 0.2
    """Clipping range of the probability ratio and of the value's change."""

    entropy_coef: float = 0.0
    """Weight of the entropy bonus."""

    value_coef: float = 1.0
    """Weight of the mean squared error of the value."""

    max_grad_norm: float = 1.0
    """Largest norm of the gradient."""

    aux_coef: float = 0.0
    """Weight of the loss that makes the policy's latent predict the privileged state; 0 leaves the head out."""

    init_std: float = 1.0
    """Standard deviation of the actions at the start."""

    actor_hidden: tuple[int, ...] = (128, 64)
    """Hidden layers of the policy, after the encoders."""

    critic_hidden: tuple[int, ...] = (128, 64)
    """Hidden layers of the critic."""

    activation: str = "elu"
    """Activation of the hidden layers: elu, relu, tanh or silu."""

    encoder: EncoderSettings = field(default_factory=EncoderSettings)
    """The policy's encoders."""

    def __post_init__(self) -> None:
        """Check that the samples divide into minibatches."""
        if self.samples_per_update % self.num_minibatches:
            raise ValueError(
                f"samples_per_update={self.samples_per_update} is no multiple of num_minibatches={self.num_minibatches}"
            )

    @property
    def minibatch_size(self) -> int:
        """Samples per gradient step."""
        return self.samples_per_update // self.num_minibatches

    def network(self) -> dict[str, Any]:
        """Return the arguments of :class:`~isaaclab_pc.agents.actor_critic.ActorCritic` that reads point clouds."""
        return {
            "actor": policy_groups("points"),
            "critic": ["critic"],
            "encoder": self.encoder.to_dict(),
            "actor_hidden": list(self.actor_hidden),
            "critic_hidden": list(self.critic_hidden),
            "activation": self.activation,
            "init_std": self.init_std,
            "aux_coef": self.aux_coef,
        }


DEFAULT = PpoSettings(max_iterations=1000, gamma=0.9, learning_rate=3e-4, schedule="fixed")
"""Hyperparameters of most tasks; found with ``lift``.

The discount is small because dense rewards lead the way. The learning rate is fixed because the adaptive schedule would
stay at its lower end: the means of actions that are clipped grow far beyond 1, and a small change of them is a large
divergence. Two CPU cores take less than an hour for the iterations, from points as well.
"""

REACH = PpoSettings(max_iterations=100, horizon=16)
"""For ``reach``: few iterations, and the adaptive schedule."""


def sizes(settings: PpoSettings) -> dict[str, PpoSettings]:
    """Return hyperparameters by the value of the setting ``agent``: these, and ``large`` ones for a GPU."""
    large = replace(
        settings,
        horizon=8,
        samples_per_update=8 * 4096,
        # Of 24,576 samples each, lift was not learned: too few steps of the optimizer (benchmarks/results/gpu.md).
        num_minibatches=16,
        actor_hidden=(256, 128, 64),
        critic_hidden=(256, 128, 64),
        encoder=EncoderSettings(point_channels=(64, 128, 256)),
    )
    return {"default": settings, "large": large}
