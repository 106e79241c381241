# SPDX-License-Identifier: BSD-3-Clause
"""Warns of contacts that the solver dropped for want of room, in a run and in a trial."""

import math
from pathlib import Path
from typing import Any

from isaaclab_pc.num_envs.classify import contact_overflow
from isaaclab_pc.physics import ContactUsage, grown

_PHYSX_HEADROOM = 1.5
"""Capacity to give a PhysX buffer, as a multiple of the size that PhysX asks for."""


class ContactWatch:
    """Reads the solver's buffers, or PhysX's output where there is no reading, and warns once."""

    def __init__(self, env: Any, log: Path) -> None:
        """Watch a gym environment, and the simulator's log from its present end."""
        self._env = env
        # For appending, which makes it where it is missing, and begins to read at its end.
        self._log = log.open("a+", encoding="utf-8", errors="replace")
        self._half_line = ""
        self._warned = False
        self.usage: ContactUsage | None = None
        """Result of the last check; None where the solver gives no reading."""

    def check(self) -> str:
        """Read the buffers, which waits for the device; return a warning the first time that contacts were dropped."""
        self.usage = contact_usage(self._env)
        if self._warned:
            return ""

        warning = dropped_contacts(self.usage)
        *lines, self._half_line = (self._half_line + self._log.read()).split("\n")
        first, sizes = contact_overflow(lines) if self.usage is None else ("", {})
        if sizes:
            advice = [
                f"set env.sim.physics.{field}={math.ceil(_PHYSX_HEADROOM * size)}"
                if size
                else f"raise env.sim.physics.{field}"
                for field, size in sizes.items()
            ]
            warning = f"PhysX drops contacts ({first}): {', '.join(advice)}"
        self._warned = bool(warning)
        return warning


def contact_usage(env: Any) -> ContactUsage | None:
    """Return a gym environment's usage since the start; None where the task or the solver gives no reading."""
    monitor = getattr(env.unwrapped, "contact_monitor", None)
    return None if monitor is None else monitor.usage()


def dropped_contacts(usage: ContactUsage | None) -> str:
    """Return one line that names the full buffers and the settings to raise; empty if none is known to be dropped."""
    if usage is None:
        return ""
    buffers = {"contacts of all environments": usage["contacts"], "constraints of an environment": usage["constraints"]}
    # The marks are read once a step, so the most that was read of an overflowed buffer may be below its capacity.
    parts = [f"room for {b['capacity']} {name}, {b['used']} seen" for name, b in buffers.items() if b["overflowed"]]
    if not parts:
        return ""
    settings = " ".join(f"physics.{name}={value}" for name, value in grown(usage).items())
    return f"the solver drops contacts ({'; '.join(parts)}): set {settings}"
