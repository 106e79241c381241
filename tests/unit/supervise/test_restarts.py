# SPDX-License-Identifier: BSD-3-Clause
"""How a run goes on after a death, and how often."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isaaclab_pc.settings import SuperviseSettings
from isaaclab_pc.supervise.deaths import Death, DeathCause
from isaaclab_pc.supervise.restarts import WINDOW_SECONDS, Restart, RestartLimit, choose_restart

DEFAULTS = SuperviseSettings()
OUT_OF_MEMORY = Death(DeathCause.OUT_OF_MEMORY, "")


@given(st.integers(2, 65_536), st.lists(st.integers(1, 65_536), max_size=8))
def test_fewer_environments_are_at_least_one_and_at_most_three_quarters(num_envs, fits):
    restart = choose_restart(OUT_OF_MEMORY, DEFAULTS, num_envs, fits)
    assert restart is not None
    fewer = restart.settings["num_envs"]
    assert 1 <= fewer <= 0.75 * num_envs
    assert fewer >= num_envs // 2


def test_a_size_that_was_found_to_fit_is_preferred_to_half():
    restart = choose_restart(OUT_OF_MEMORY, DEFAULTS, 1000, [1000, 960, 640, 128])
    assert restart is not None
    assert restart.settings == {"num_envs": 640}


FORGIVING = SuperviseSettings(harden_physics=True)
STRICT = SuperviseSettings(shrink_on_oom=False)


@pytest.mark.parametrize(
    ("cause", "settings", "num_envs", "harder", "restart"),
    [
        (DeathCause.OUT_OF_MEMORY, DEFAULTS, 1, None, None),
        (DeathCause.OUT_OF_MEMORY, STRICT, 8, None, None),
        (DeathCause.STORM, FORGIVING, 8, None, None),
        (DeathCause.STORM, FORGIVING, 8, {}, None),
        (DeathCause.STORM, DEFAULTS, 8, {"dt": 0.01}, None),
        (DeathCause.ERROR, DEFAULTS, 8, None, None),
        (DeathCause.KILLED, STRICT, 8, None, Restart("")),
        (DeathCause.STALLED, STRICT, 8, None, Restart("")),
        (DeathCause.LEAK, STRICT, 8, None, Restart("")),
        (DeathCause.RANK_LOST, STRICT, 8, None, Restart("")),
    ],
)
def test_the_run_ends_where_nothing_helps_or_the_user_forbids_it(cause, settings, num_envs, harder, restart):
    assert choose_restart(Death(cause, ""), settings, num_envs, harder_physics=harder) == restart


def test_restarts_of_an_hour_ago_count_only_where_no_checkpoint_came_of_them():
    now = 0.0
    limit = RestartLimit(lambda: now)
    assert [limit.allow(2) for _ in range(3)] == [True, True, False]
    now += WINDOW_SECONDS + 1
    assert limit.allow(2)

    limit = RestartLimit(lambda: now)
    allowed = []
    for made_progress in (False, True, False, False):
        allowed.append(limit.allow(2, made_progress=made_progress))
        now += WINDOW_SECONDS + 1
    assert allowed == [True, True, True, False]
