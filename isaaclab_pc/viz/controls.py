# SPDX-License-Identifier: BSD-3-Clause
"""Requests of a person who watches a running environment."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

__all__ = ["Controls"]


class Controls:
    """Pause, single steps, slow motion, reset, and settings to start again with.

    The page's handlers call the methods from threads of their own; the loop that steps the environment asks.
    """

    def __init__(self) -> None:
        """Begin running, in real time."""
        self._lock = threading.Lock()
        self._paused = False
        self._steps = 0
        self._stops_at_fault = False
        self._reset = False
        self._rebuild: dict[str, Any] | None = None
        self._next_step = 0.0

        self.speed = 1.0
        """Times real time: 0.1 is slow motion. A step that takes longer than that is not waited for."""
        self.message = ""
        """Answer to the last request, as the page shows it."""
        self.redraw = False
        """Whether what is drawn has to be drawn again, in other colours for example."""

    @property
    def paused(self) -> bool:
        """Whether the environment stands still until something is asked for."""
        return self._paused

    # For the page.

    def pause(self, message: str = "") -> None:
        """Stand still before the next step."""
        with self._lock:
            self._paused = True
            self._steps = 0
            self._stops_at_fault = False
            self.message = message

    def run(self) -> None:
        """Go on."""
        with self._lock:
            self._paused = False
            self._stops_at_fault = False
            self.message = ""

    def run_to_fault(self) -> None:
        """Go on until the guard finds something."""
        self.run()
        with self._lock:
            self._stops_at_fault = True
            self.message = "running to the next fault"

    def step(self) -> None:
        """Take one step and stand still."""
        self.pause()
        with self._lock:
            self._steps += 1

    def reset(self) -> None:
        """Reset all environments before the next step."""
        with self._lock:
            self._reset = True

    def rebuild(self, values: Mapping[str, Any]) -> None:
        """Build the environments again with other settings, by dotted name."""
        with self._lock:
            self._rebuild = dict(values)

    # For the loop.

    def wants_step(self, step_s: float) -> bool:
        """Tell whether the next step is due, and count it as taken if it is.

        Args:
            step_s: How much time it simulates [s].
        """
        with self._lock:
            if self._paused:
                due = self._steps > 0
                self._steps -= due
                return due

            now = time.monotonic()
            if now < self._next_step:
                return False
            # From the planned time, so that late steps do not add up; from now where they are too slow for it.
            period = step_s / self.speed
            self._next_step = (self._next_step if now - self._next_step < period else now) + period
            return True

    def wants_reset(self) -> bool:
        """Tell once that a reset was asked for."""
        with self._lock:
            wanted, self._reset = self._reset, False
            return wanted

    def wants_rebuild(self) -> dict[str, Any] | None:
        """Tell once with which settings to build again."""
        with self._lock:
            wanted, self._rebuild = self._rebuild, None
            return wanted

    def saw_fault(self, text: str) -> None:
        """Stand still if that is what :meth:`run_to_fault` asked for.

        Args:
            text: What the guard found, and where.
        """
        if self._stops_at_fault:
            self.pause(f"fault: {text}")
