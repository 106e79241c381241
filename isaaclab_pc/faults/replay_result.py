# SPDX-License-Identifier: BSD-3-Clause
"""Finding of a replay, passed as JSON from the child that simulates to its parent. Loads no torch."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from isaaclab_pc.utils.json_record import Count, JsonRecord, NonNegative, Size

_AnyFloat = Annotated[float, Field(allow_inf_nan=True)]
"""A number of the simulation, which may be NaN or infinite: such values are what a replay looks for."""


@dataclass(frozen=True)
class Reading(JsonRecord):
    """The worst component of one quantity of one joint or body, after a physics step."""

    asset: str
    """The asset's name in the scene; empty for an action."""

    name: str
    """The joint, the body, or the component of an action."""

    quantity: str
    """Quantity, with its unit in brackets."""

    value: _AnyFloat
    """The component that is furthest out."""

    bound: float
    """The bound on that side."""

    excess: _AnyFloat
    """Distance from the middle of the allowed interval, in halves of its width: above 1 is out of bounds. Infinite
    where the value is not finite."""

    set_by_joints: bool = False
    """Whether the joints determine it, as they do for the links of an arm on a fixed base."""

    @property
    def is_out_of_bounds(self) -> bool:
        """Whether the value is not finite or beyond its bound."""
        return self.excess > 1.0

    @property
    def is_fault(self) -> bool:
        """Whether this alone makes the state a faulty one; a link that is out of bounds only follows a joint."""
        return self.is_out_of_bounds and not self.set_by_joints

    @property
    def source(self) -> tuple[str, str, str]:
        """Asset, name and quantity: the same in every physics step."""
        return self.asset, self.name, self.quantity


@dataclass(frozen=True)
class Fault(JsonRecord):
    """The first physics step in which a value is not finite or out of its bound."""

    step: Count
    """Step of the history."""

    substep: Count
    """Physics step in it, from 1; 0: the action itself, before any physics."""

    offenders: Annotated[tuple[Reading, ...], Field(min_length=1)]
    """Readings that are out of bounds, the worst first; only the first few."""

    num_offenders: Size
    """How many there are."""

    trace: tuple[_AnyFloat, ...]
    """The worst one's values after the physics steps before, oldest first."""


@dataclass(frozen=True)
class ReplayResult(JsonRecord):
    """The fault that a replay found, and how closely it followed the recording."""

    backend: str
    """The physics backend."""

    dt: NonNegative
    """Physics step [s]."""

    decimation: Size
    """Physics steps per action."""

    episode_step: Annotated[tuple[int, ...], Field(min_length=1)]
    """For each step of the history, how many steps of its episode came before."""

    from_each_step: bool
    """Whether every step began in its recorded state; otherwise the first one alone, since the physics is another."""

    fault: Fault | None
    """None where all steps stayed finite and in bounds."""

    differences: tuple[_AnyFloat, ...]
    """Distance from the recorded state at the end of each step but the last, up to the fault [rad, m]."""
