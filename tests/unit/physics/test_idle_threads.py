# SPDX-License-Identifier: BSD-3-Clause
"""Threads that start in the block wake up late; the others as before."""

import statistics
import threading
import time

import pytest

from isaaclab_pc.physics.idle_threads import calm_threads


def usual_sleep() -> float:
    """Return how long a microsecond's sleep takes in the median [s]."""
    durations = []
    for _ in range(20):
        before = time.perf_counter()
        time.sleep(1e-6)
        durations.append(time.perf_counter() - before)
    return statistics.median(durations)


def test_a_thread_wakes_as_seldom_as_where_it_was_started() -> None:
    asked = threading.Event()
    slept: dict[str, float] = {}

    def sleep(name: str) -> None:
        asked.wait()
        slept[name] = usual_sleep()

    threads = [threading.Thread(target=sleep, args=["outside"])]
    threads[0].start()
    with calm_threads():
        threads.append(threading.Thread(target=sleep, args=["inside"]))
        threads[1].start()
    asked.set()
    for thread in threads:
        thread.join()

    assert slept["inside"] > 1e-3 > slept["outside"]


def test_the_callers_own_slack_is_put_back_after_an_error() -> None:
    with pytest.raises(RuntimeError), calm_threads():
        raise RuntimeError
    assert usual_sleep() < 1e-3
