# SPDX-License-Identifier: BSD-3-Clause
from isaaclab_pc.workers.pace import Pace


def test_the_first_iteration_counts_only_until_there_is_a_second():
    now = 100.0
    left = Pace(completed=0, maximum=10, clock=lambda: now)
    now += 20.0
    assert left.seconds_left(1) == 180.0
    now += 5.0
    assert left.seconds_left(2) == 40.0
    now += 7.0
    assert left.seconds_left(3) == 42.0


def test_a_resumed_run_is_timed_from_where_it_goes_on():
    now = 100.0
    left = Pace(completed=90, maximum=100, clock=lambda: now)
    now += 2.0
    assert left.seconds_left(91) == 18.0
