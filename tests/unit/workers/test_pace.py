# SPDX-License-Identifier: BSD-3-Clause
import pytest

from isaaclab_pc.workers.train import Pace


@pytest.mark.parametrize(
    ("completed", "maximum", "durations", "expected"),
    [(0, 10, [20.0, 5.0, 7.0], [180.0, 40.0, 42.0]), (90, 100, [2.0], [18.0])],
    ids=["new", "resumed"],
)
def test_the_first_iteration_counts_only_until_there_is_a_second(completed, maximum, durations, expected):
    now = 100.0
    pace = Pace(completed, maximum, clock=lambda: now)
    left = []
    for number, duration in enumerate(durations, completed + 1):
        now += duration
        left.append(pace.seconds_left(number))
    assert left == expected
