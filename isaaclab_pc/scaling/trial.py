# SPDX-License-Identifier: BSD-3-Clause
"""The record of one size that was tried, passed as JSON from the probe child to its parent."""

import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

__all__ = ["Outcome", "Trial", "format_size"]


class Outcome(StrEnum):
    """How a trial ended.

    `OVER_BUDGET`, `OOM`, `CRASH` and `TIMEOUT` bound the number of environments from above. `OVERFLOW` does not: the
    same size is tried again with larger buffers. `ERROR` and `NAN` end the search, since no other size would help.
    """

    FITS = "fits"
    """It trained inside the budget."""
    OVER_BUDGET = "over_budget"
    """The parent saw it pass a memory budget and ended it."""
    OOM = "oom"
    """It ran out of memory by itself, or the kernel ended it for that."""
    CRASH = "crash"
    """A signal other than an out-of-memory kill ended it."""
    TIMEOUT = "timeout"
    """It was not done when the time for the search was up."""
    OVERFLOW = "overflow"
    """It trained, but the solver dropped contacts for want of room. Not a limit of memory: whoever searches grows the
    buffers (`physics.grown` of `extra["contacts"]`, or the fields of `sim.physics` in `extra["physx_buffers"]`) and
    tries the same size again."""
    NAN = "nan"
    """It trained, but on non-finite numbers: a loss was not finite, or too large a share of the environments' steps
    ended by a fault. The physics or the agent is unstable, whatever the size."""
    ERROR = "error"
    """The user's code or settings failed: a smaller size would fail too, so the search stops."""


@dataclass(frozen=True)
class Trial:
    """One size that was tried, and what was measured.

    The child fills in what it knows (outcome, frames per second, seconds, extra); the parent attaches what it metered
    from outside.
    """

    num_envs: int
    """Environments that were tried."""
    outcome: Outcome
    """How it ended."""
    frames_per_second: float = 0.0
    """Environment steps of training (rollout and update together) per second; 0 unless it fits."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Seconds per phase as the child timed them: build, rollout, update."""
    wall_seconds: float = 0.0
    """Seconds from the start of the child to its end, seen by the parent."""
    host_bytes: int = 0
    """Peak host memory of the child's process tree [bytes]."""
    host_budget: int | None = None
    """Limit that `host_bytes` was held to [bytes]; None: no limit."""
    device_bytes: int | None = None
    """Peak memory of the child's process tree on the GPU [bytes]; None on the CPU."""
    device_budget: int | None = None
    """Limit that `device_bytes` was held to [bytes]; None: no limit."""
    detail: str = ""
    """One line on why it did not fit; empty when it did."""
    log: str = ""
    """Where the child's output is kept; empty when it was thrown away."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else was found. `contacts`: the solver's buffers, a `physics.ContactUsage`, or None where it gives no
    reading; `physx_buffers`: fields of `sim.physics` that PhysX found too small, and the sizes it asked for;
    `nonfinite`: environment steps that ended by a fault."""

    @property
    def fits(self) -> bool:
        """Whether this size can be used."""
        return self.outcome is Outcome.FITS

    def __str__(self) -> str:
        """One line for the terminal."""
        parts = [_share("GPU memory", self.device_bytes, self.device_budget)] if self.device_bytes is not None else []
        parts.append(_share("host memory", self.host_bytes, self.host_budget))
        if self.frames_per_second:
            parts.append(f"{self.frames_per_second:.0f} frames/s")
        parts.append(f"{self.wall_seconds:.1f} s")
        contacts = self.extra.get("contacts")
        if isinstance(contacts, dict) and isinstance(contacts.get("share"), int | float):
            parts.append(f"contact buffers {contacts['share']:.0%} full")
        if nonfinite := self.extra.get("nonfinite"):
            parts.append(f"{nonfinite} environment steps not finite")
        if self.detail:
            parts.append(self.detail)
        return f"num_envs={self.num_envs}: {self.outcome.replace('_', ' ')} ({', '.join(parts)})"

    def write(self, path: Path) -> None:
        """Write this trial as JSON, all of it or nothing.

        Args:
            path: File to make or replace; its folder exists.
        """
        temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        temporary.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")
        temporary.replace(path)

    @classmethod
    def read(cls, path: Path) -> "Trial":
        """Read a trial that a child wrote.

        Args:
            path: JSON file. Keys that are no field of this class are kept in `extra`.

        Returns:
            The trial, its types checked: a child is not trusted to write what it should.

        Raises:
            FileNotFoundError: There is no such file.
            ValueError: The file holds something else, or numbers that are not finite.
        """
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"not JSON: {error}") from None
        if not isinstance(data, dict):
            raise ValueError(f"a JSON object is expected, not {type(data).__name__}")
        extra = _mapping(data.pop("extra", None))
        extra |= {name: data.pop(name) for name in list(data) if name not in _FIELDS}
        try:
            return cls(**{name: _FIELDS[name](value) for name, value in data.items()}, extra=extra)
        except TypeError as error:
            raise ValueError(str(error)) from None


def format_size(size: float) -> str:
    """Render a number of bytes for people.

    Args:
        size: Bytes.

    Returns:
        Text such as "1.5 GiB" that `scaling.budget` takes back.
    """
    for unit, power in (("GiB", 3), ("MiB", 2), ("KiB", 1)):
        if abs(size) >= 1024**power:
            return f"{size / 1024**power:.1f} {unit}"
    return f"{size:.0f} B"


def _share(name: str, size: int, budget: int | None) -> str:
    """Render what was used of a budget."""
    limit = "" if budget is None else f" of {format_size(budget)}"
    return f"{format_size(size)}{limit} {name}"


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ValueError(f"a finite number >= 0 is expected, not {value!r}")
    return float(value)


def _integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"an integer >= 0 is expected, not {value!r}")
    return value


def _optional_integer(value: object) -> int | None:
    return None if value is None else _integer(value)


def _mapping(value: object) -> dict[str, Any]:
    if not isinstance(value, dict | None):
        raise ValueError(f"a JSON object is expected, not {value!r}")
    return value or {}


def _seconds(value: object) -> dict[str, float]:
    return {phase: _number(seconds) for phase, seconds in _mapping(value).items()}


_FIELDS: dict[str, Callable[[Any], Any]] = {
    "num_envs": _integer,
    "outcome": Outcome,
    "frames_per_second": _number,
    "seconds": _seconds,
    "wall_seconds": _number,
    "host_bytes": _integer,
    "host_budget": _optional_integer,
    "device_bytes": _optional_integer,
    "device_budget": _optional_integer,
    "detail": str,
    "log": str,
}
"""How each field but `extra` is read from JSON; each raises ValueError on what does not belong there."""
