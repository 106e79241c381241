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
    "HasOwnLoss",
    "HasPolicy",
    "forget_past_episodes",
    "scale_own_losses",
]


@runtime_checkable
class HasClippingGroups(Protocol):
    """A network that wants the gradients of its parts clipped apart."""

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


@runtime_checkable
class HasOwnLoss(Protocol):
    """A part of a network that adds a loss to a backward pass, of which the learning library does not know."""

    scale_loss: Callable[[Tensor], Tensor]
    """Applied to the loss."""


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
    """Let the losses that a network adds by itself be scaled as the library's, for mixed precision.

    Args:
        network: The network.
        scale: Scales a loss. A plain function: whoever copies the network would copy the owner of a method with it.
    """
    for module in network.modules():
        if isinstance(module, HasOwnLoss):
            module.scale_loss = scale


def forget_past_episodes(policy: HasMemory, env: Any) -> None:
    """Let a policy forget what it saw, where an episode is about to begin.

    Args:
        policy: The policy.
        env: Its environment, which counts the steps of its episodes.
    """
    # An episode that a bad observation ended is reset before the next physics step only.
    base = getattr(env, "unwrapped", env)
    began = (base.episode_length_buf == 0) | base.reset_buf
    policy.reset(None if began.all() else began)
