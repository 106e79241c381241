# SPDX-License-Identifier: BSD-3-Clause
"""Protocols that a policy network may implement, for adapters and workers of every library."""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, runtime_checkable

from torch import Tensor, nn


@runtime_checkable
class HasPolicy(Protocol):
    """Computes the policy alone, without a critic or an update of the normalizers, and tells actor and critic apart."""

    actor_groups: Iterable[str]
    """Observation groups that the policy reads."""

    def policy(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Return the mean of the actions, shape (B, A), for these groups by name."""
        ...

    def clipping_groups(self) -> Iterable[list[nn.Parameter]]:
        """Return the parameters in groups; the gradient of each is clipped by its own norm."""
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
    """Scale the losses that parts of a network add by themselves as the library's, for mixed precision.

    Such a part has an attribute ``scale_loss``. ``scale`` is a plain function: a copy of the network would copy the
    owner of a method with it.
    """
    for module in network.modules():
        if hasattr(module, "scale_loss"):
            module.scale_loss = scale  # type: ignore[assignment]
