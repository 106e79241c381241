# SPDX-License-Identifier: BSD-3-Clause
"""Simulators' threads may wake up late, and OpenMP's sleep soon, where the user does not say otherwise."""

import ctypes
import os
import subprocess
import sys
import threading

import pytest

from isaaclab_pc.physics.idle_threads import SPIN_COUNT, limit_spinning, relax_thread_timers

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
    with relax_thread_timers():
        threads.append(threading.Thread(target=tell, args=["inside"]))
        threads[1].start()
    asked.set()
    for thread in threads:
        thread.join()

    assert usual < 1_000_000
    assert slack == {"outside": usual, "inside": 2_000_000}


def test_the_callers_own_slack_is_put_back_after_an_error() -> None:
    usual = own_slack()
    with pytest.raises(RuntimeError), relax_thread_timers():
        raise RuntimeError
    assert own_slack() == usual


def test_the_runtime_that_torch_loads_spins_as_little_as_it_is_told() -> None:
    code = (
        "import os; from isaaclab_pc.physics.idle_threads import limit_spinning; limit_spinning(os.environ); "
        "import torch; torch.ones(2)"
    )
    unset = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "KMP_"))}
    shown = subprocess.run(
        [sys.executable, "-c", code], env={**unset, "OMP_DISPLAY_ENV": "VERBOSE"}, capture_output=True, text=True
    ).stderr
    assert f"GOMP_SPINCOUNT = '{SPIN_COUNT}'" in shown
    assert "OMP_WAIT_POLICY = 'PASSIVE'" in shown


@pytest.mark.parametrize("name", ["OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"])
def test_what_the_user_says_about_waiting_stays_alone(name) -> None:
    environment = {name: "1"}
    limit_spinning(environment)
    assert environment == {name: "1"}
