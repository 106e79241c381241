# SPDX-License-Identifier: BSD-3-Clause
"""Threads that start in the block may wake up late; the others as before."""

import ctypes
import threading

import pytest

from isaaclab_pc.physics.idle_threads import calm_threads

GET_TIMER_SLACK = 30
"""PR_GET_TIMERSLACK of ``man 2 prctl``."""


def own_slack() -> int:
    """Return how much later than asked for this thread may wake up [ns]."""
    return ctypes.CDLL(None).prctl(GET_TIMER_SLACK, 0, 0, 0, 0)


def test_a_thread_may_wake_as_late_as_where_it_was_started() -> None:
    asked = threading.Event()
    slack: dict[str, int] = {}

    def tell(name: str) -> None:
        asked.wait()
        slack[name] = own_slack()

    usual = own_slack()
    threads = [threading.Thread(target=tell, args=["outside"])]
    threads[0].start()
    with calm_threads():
        threads.append(threading.Thread(target=tell, args=["inside"]))
        threads[1].start()
    asked.set()
    for thread in threads:
        thread.join()

    assert usual < 1_000_000
    assert slack == {"outside": usual, "inside": 2_000_000}


def test_the_callers_own_slack_is_put_back_after_an_error() -> None:
    usual = own_slack()
    with pytest.raises(RuntimeError), calm_threads():
        raise RuntimeError
    assert own_slack() == usual
