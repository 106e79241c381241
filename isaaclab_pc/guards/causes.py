# SPDX-License-Identifier: BSD-3-Clause
"""Where the guard found a bad value, as bits, and the error that tells it."""

from collections.abc import Sequence
from enum import IntFlag
from pathlib import Path


class Cause(IntFlag):
    """Where a bad value was found; an environment may have several in one step."""

    ACTION = 1 << 0
    """The action is not finite or too large."""

    POSITION = 1 << 1
    """A body is too far from its environment's origin."""

    ORIENTATION = 1 << 2
    """A body's quaternion is not of length 1."""

    VELOCITY = 1 << 3
    """A body moves or turns too fast."""

    JOINT_POSITION = 1 << 4
    """A joint is beyond its limits by more than the margin."""

    JOINT_VELOCITY = 1 << 5
    """A joint is too fast."""

    REWARD = 1 << 6
    """The reward is not finite or too large."""

    OBSERVATION = 1 << 7
    """A number of an observation group is not finite or too large."""

    DEPTH = 1 << 8
    """A depth image has a value that no renderer writes on purpose."""

    @property
    def label(self) -> str:
        """The name in logs and counters."""
        return str(self.name).lower()

    @classmethod
    def labels(cls, bits: int) -> tuple[str, ...]:
        """Return the names of the causes in a bit mask."""
        return tuple(cause.label for cause in cls if cause & bits)


CAUSES: tuple[str, ...] = tuple(cause.label for cause in Cause)
"""Names of the bits, the lowest one first."""


class FaultError(RuntimeError):
    """A guard in mode ``raise`` found a bad value."""

    def __init__(
        self, task: str, env_ids: Sequence[int], causes: Sequence[str], tensor: str, step: int, dump: Path | None
    ) -> None:
        """Put everything that is known into the message.

        ``tensor`` is ``actions``, ``reward``, an observation group, an asset or a camera; ``step`` counts from when the
        environment was made; ``dump`` is a file with the history of these environments.
        """
        self.task = task
        self.env_ids = tuple(env_ids)
        self.causes = tuple(causes)
        self.tensor = tensor
        self.step = step
        self.dump = dump

        shown = ", ".join(map(str, self.env_ids[:8])) + (", ..." if len(self.env_ids) > 8 else "")
        text = (
            f"{task}: bad values in {tensor} ({', '.join(causes)}) of {len(self.env_ids)} "
            f"environment(s) ({shown}) at step {step}. guard.mode=quarantine resets such environments and goes on."
        )
        super().__init__(text if dump is None else f"{text} Their last steps: {dump}")
