# SPDX-License-Identifier: BSD-3-Clause
"""Commands of a person who drives an arm by sliders and keys; needs neither a simulator nor a browser."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["ArmDrive", "Motion"]


@dataclass(frozen=True)
class Motion:
    """One component of the action."""

    name: str
    """Name of the moved part."""

    meaning: str
    """Meaning of the values, for people."""

    keys: tuple[str, str] | None = None
    """Keys that move it to smaller and to larger values; None: there are none."""

    start: float = 0.0
    """The value, in [-1, 1], at which it rests."""

    stays: bool = False
    """Whether the value is a place rather than a speed, so that a key sets it for good, and nothing needs to be
    stopped."""


class ArmDrive:
    """The actions that sliders and keys ask for, in one of the environments.

    A page's handlers call the methods from threads of their own; the loop that steps the environment asks.
    """

    def __init__(self, motions: Sequence[Motion], key_steps: int) -> None:
        """Rest.

        Args:
            motions: The components of the action, in their order.
            key_steps: Steps for which a key moves the arm: a person's browser tells when a key goes down, and again and
                again while it is held, but not when it is let go.
        """
        self.motions = tuple(motions)
        """The components of the action."""
        self.env = 0
        """The environment that is driven."""
        self.values = [motion.start for motion in motions]
        """Where the sliders stand."""

        self._key_steps = key_steps
        self._pressed: dict[int, tuple[float, int]] = {}

    def press(self, index: int, direction: float) -> None:
        """Move by a key.

        Args:
            index: The motion.
            direction: -1 or 1.
        """
        if self.motions[index].stays:
            self.values[index] = direction
        else:
            self._pressed[index] = (direction, self._key_steps)

    def stop(self) -> None:
        """Stop all motions; what is a place stays there."""
        self._pressed = {}
        for index, motion in enumerate(self.motions):
            if not motion.stays:
                self.values[index] = motion.start

    def next_action(self) -> list[float]:
        """Return the action of the next step, each component in [-1, 1]; a key counts before its slider."""
        action = list(self.values)
        for index, (direction, steps) in list(self._pressed.items()):
            action[index] = direction
            if steps > 1:
                self._pressed[index] = (direction, steps - 1)
            else:
                self._pressed.pop(index, None)
        return action
