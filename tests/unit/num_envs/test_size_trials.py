# SPDX-License-Identifier: BSD-3-Clause
"""The time of a search begins with the first environment that is built."""

from isaaclab_pc.num_envs.size_trials import SearchClock
from isaaclab_pc.num_envs.trial import FIRST_BUILD_SECONDS


def test_the_first_build_has_time_of_its_own_and_the_search_has_its_time_after_it() -> None:
    now = [100.0]
    clock = SearchClock(180.0, lambda: now[0])
    assert (clock.build_left(), clock.spent(), clock.left()) == (FIRST_BUILD_SECONDS, 0.0, 180.0)

    now[0] += 300
    assert not clock.is_built
    assert (clock.build_left(), clock.spent(), clock.left()) == (FIRST_BUILD_SECONDS - 300, 0.0, 180.0)

    clock.built()
    now[0] += 50
    clock.built()
    assert clock.is_built
    assert (clock.build_left(), clock.spent(), clock.left()) == (None, 50.0, 130.0)
    now[0] += 500
    assert clock.left() == 0.0


def test_no_time_is_left_where_the_first_build_took_too_long() -> None:
    now = [0.0]
    clock = SearchClock(180.0, lambda: now[0])
    now[0] = FIRST_BUILD_SECONDS + 1
    assert (clock.build_left(), clock.spent(), clock.left()) == (0.0, 180.0, 0.0)
