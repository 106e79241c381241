# SPDX-License-Identifier: BSD-3-Clause
"""Protocols that a policy network may implement, for adapters and workers of every library."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

__all__ = [
    "ActsFromState",
    "HasChunks",
    "HasClippingGroups",
    "HasMemory",
    "HasPolicy",
    "forget_past_episodes",
    "scale_own_losses",
]


@runtime_checkable
class HasClippingGroups(Protocol):
    """A network that tells actor and critic apart."""

    def clipping_groups(self) -> Iterable[list[nn.Parameter]]:
        """Return the parameters in groups; the gradient of each is clipped by its own norm."""
        ...


@runtime_checkable
class HasPolicy(Protocol):
    """Computes the policy alone: no critic, and no update of the normalizers."""

    actor_groups: Iterable[str]
    """Observation groups that the policy reads."""

    def policy(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Return the mean of the actions, shape (B, A), for these groups by name."""
        ...


@runtime_checkable
class HasChunks(Protocol):
    """Encoders of observations that pass a minibatch in parts."""

    def samples_at_once(self) -> int:
        """Return how many samples' activations are held at once; 0 where nothing is encoded."""
        ...


class HasMemory(Protocol):
    """A policy that acts on what it saw in the episode."""

    def reset(self, dones: Tensor | None = None) -> None:
        """Forget what was seen in these environments, shape (N,), bool; None: in all."""
        ...


@runtime_checkable
class ActsFromState(Protocol):
    """A policy with a memory that is given from outside, as programs without its library do.

    The memory is the hidden state and, of an LSTM, the cell state, each (M, B, H) with M layers.
    """

    def initial_state(self, batch: int) -> tuple[Tensor, ...]:
        """Return the memory before the first step of an episode, for a number of environments B."""
        ...

    def act_from(self, obs: Mapping[str, Tensor], state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return actions, shape (B, A), and the memory after the step, for groups by name and the memory before."""
        ...


def scale_own_losses(network: nn.Module, scale: Callable[[Tensor], Tensor]) -> None:
    """Let the losses that parts of a network add by themselves be scaled as the library's, for mixed precision.

    Args:
        network: The network; such a part has an attribute ``scale_loss``.
        scale: Scales a loss. A plain function: whoever copies the network would copy the owner of a method with it.
    """
    for module in network.modules():
        if hasattr(module, "scale_loss"):
            module.scale_loss = scale  # type: ignore[assignment]


def forget_past_episodes(policy: HasMemory, env: Any) -> None:
    """Let a policy forget what it saw, where an episode is about to begin.

    Args:
        policy: The policy.
        env: Its environment, which counts the steps of its episodes, or a library's wrapper around it.
    """
    # An episode that a bad observation ended is reset before the next physics step only.
    base = getattr(env, "unwrapped", env)
    began = (base.episode_length_buf == 0) | base.reset_buf
    policy.reset(None if began.all() else began)
