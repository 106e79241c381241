# SPDX-License-Identifier: BSD-3-Clause
"""Threads of a simulator that have nothing to do, and take time from those that have. Loads no simulator."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["calm_threads"]

_SET_TIMER_SLACK = 29
_GET_TIMER_SLACK = 30
"""PR_SET_TIMERSLACK and PR_GET_TIMERSLACK of ``man 2 prctl``."""

_SLACK_NS = 2_000_000


@contextmanager
def calm_threads() -> Iterator[None]:
    """Let the threads that start in this block wake up to 2 ms late from a sleep, for as long as they live.

    ovphysx starts one that waits for meshes to cook. It sleeps for a microsecond, then looks, as long as the simulation
    lives: 18 % of a core, and each time it wakes it interrupts another thread, which made rendering a third slower on
    two virtual cores. The setting that ovphysx names for the cooking does not stop it
    (``/physics/cooking/ujitsoCollisionCooking``).

    Linux lets a sleep last longer than asked for by the thread's timer slack, 50 us unless it is set, and a thread
    inherits that of the one that starts it. The slack of the thread that calls is put back at the end of the block.
    """
    prctl = ctypes.CDLL(None).prctl
    before = prctl(_GET_TIMER_SLACK, 0, 0, 0, 0)
    prctl(_SET_TIMER_SLACK, ctypes.c_ulong(_SLACK_NS), 0, 0, 0)
    try:
        yield
    finally:
        if before > 0:
            prctl(_SET_TIMER_SLACK, ctypes.c_ulong(before), 0, 0, 0)
