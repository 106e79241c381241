# SPDX-License-Identifier: BSD-3-Clause
"""Requests of a person who watches a running environment."""

import threading
import time


class Controls:
    """Pause, single steps, slow motion and reset.

    The page's handlers make requests from threads of their own; the loop that steps the environment takes them with
    the methods ``take_*``.
    """

    def __init__(self) -> None:
        """Run, in real time."""
        self._lock = threading.Lock()
        self._single_step = False
        self._stops_at_fault = False
        self._reset = False
        self._next_step = 0.0

        self.paused = False
        """Whether the environment stands still until a step is requested."""
        self.speed = 1.0
        """Times real time, at most: 0.1 is slow motion."""
        self.message = ""
        """Answer to the last request, for the page."""
        self.redraw = False
        """Whether the scene has to be drawn again, for example in other colours."""

    def pause(self, message: str = "") -> None:
        """Stand still before the next step."""
        self._request(paused=True, message=message)

    def run(self) -> None:
        """Go on."""
        self._request()

    def run_to_fault(self) -> None:
        """Go on until the guard finds something."""
        self._request(stops_at_fault=True, message="running to the next fault")

    def step(self) -> None:
        """Take one step and stand still."""
        self._request(paused=True, single_step=True)

    def reset(self) -> None:
        """Reset all environments before the next step."""
        with self._lock:
            self._reset = True

    def take_step(self, step_s: float) -> bool:
        """Tell whether the next step, of so much simulated time [s], is due; it counts as taken then."""
        with self._lock:
            if self.paused:
                due, self._single_step = self._single_step, False
                return due

            now = time.monotonic()
            if now < self._next_step:
                return False
            # From the planned time, so that late steps do not add up; from now where they are too slow for it.
            period = step_s / self.speed
            self._next_step = (self._next_step if now - self._next_step < period else now) + period
            return True

    def take_reset(self) -> bool:
        """Tell once that a reset was requested."""
        with self._lock:
            wanted, self._reset = self._reset, False
            return wanted

    def saw_fault(self, text: str) -> None:
        """Stand still if :meth:`run_to_fault` was the last request; ``text`` describes the fault."""
        if self._stops_at_fault:
            self.pause(f"fault: {text}")

    def _request(
        self, paused: bool = False, single_step: bool = False, stops_at_fault: bool = False, message: str = ""
    ) -> None:
        with self._lock:
            self.paused = paused
            self._single_step = single_step
            self._stops_at_fault = stops_at_fault
            self.message = message
