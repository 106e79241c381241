# SPDX-License-Identifier: BSD-3-Clause
"""Threads that have nothing to do, and take time from those that have. Loads no simulator."""

import ctypes
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager

SPIN_COUNT = 1000
"""How often an OpenMP thread looks for work before it sleeps; libgomp's default is 300,000, which is milliseconds.

Found by ``benchmarks/thread_waits.py``: about the time that waking a thread takes. Beside two programs that
compute for 60 % of the time, learning was 1.6 and 4.4 times as fast as with the default, on two machines."""

_WAIT_VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")

_SET_TIMER_SLACK = 29
_GET_TIMER_SLACK = 30
"""PR_SET_TIMERSLACK and PR_GET_TIMERSLACK of ``man 2 prctl``."""

_SLACK_NS = 2_000_000


def limit_spinning(environment: MutableMapping[str, str]) -> None:
    """Let OpenMP's idle threads sleep soon, by environment variables; nothing is changed where one is set already.

    The runtimes read these variables when they are loaded: call this before torch is imported.
    """
    if not any(name in environment for name in _WAIT_VARIABLES):
        # The first and the last are Intel's and LLVM's runtime's, in a torch that comes from conda.
        environment.update(OMP_WAIT_POLICY="PASSIVE", GOMP_SPINCOUNT=str(SPIN_COUNT), KMP_BLOCKTIME="0")


@contextmanager
def relax_thread_timers() -> Iterator[None]:
    """Let the threads that start in this block wake up to 2 ms late from a sleep, for as long as they live.

    ovphysx starts one that waits for meshes to cook: it sleeps for a microsecond, then looks, as long as the simulation
    lives. That took 18 % of a core and made rendering a third slower on two virtual cores, and no setting of ovphysx
    stops it. Linux lets a sleep last longer by the thread's timer slack, which a thread inherits from the one that
    starts it. The caller's own slack is put back at the end.
    """
    prctl = ctypes.CDLL(None).prctl
    before = prctl(_GET_TIMER_SLACK, 0, 0, 0, 0)
    prctl(_SET_TIMER_SLACK, ctypes.c_ulong(_SLACK_NS), 0, 0, 0)
    try:
        yield
    finally:
        if before > 0:
            prctl(_SET_TIMER_SLACK, ctypes.c_ulong(before), 0, 0, 0)
