# SPDX-License-Identifier: BSD-3-Clause
import pytest

from isaaclab_pc.workers import pace
from isaaclab_pc.workers.pace import Pace


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test turns."""
    now = [100.0]
    monkeypatch.setattr(pace.time, "monotonic", lambda: now[0])
    return now


def test_the_first_iteration_counts_only_until_there_is_a_second(clock):
    left = Pace(completed=0, maximum=10)
    clock[0] += 20.0
    assert left.seconds_left(1) == 180.0
    clock[0] += 5.0
    assert left.seconds_left(2) == 40.0
    clock[0] += 7.0
    assert left.seconds_left(3) == 42.0


def test_a_resumed_run_is_timed_from_where_it_goes_on(clock):
    left = Pace(completed=90, maximum=100)
    clock[0] += 2.0
    assert left.seconds_left(91) == 18.0
