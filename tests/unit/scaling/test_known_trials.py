# SPDX-License-Identifier: BSD-3-Clause
"""Trials of an unfinished search, under the budgets of another day."""

from dataclasses import replace
from typing import Any

import pytest

from isaaclab_pc.scaling import Outcome, StopReason, Trial
from isaaclab_pc.scaling.known_trials import is_unfinished, still_known
from isaaclab_pc.scaling.profile import Doubt, Profile
from isaaclab_pc.scaling.trial_runner import Budgets

PROFILE = Profile(32, 1.0, 10, None, StopReason.COMPLETE, (Trial(32, Outcome.FITS), Trial(64, Outcome.OOM)))


@pytest.mark.parametrize(
    ("changes", "max_trials", "goes_on"),
    [
        ({}, None, False),
        ({"stop": StopReason.TIME}, None, True),
        ({"stop": StopReason.TRIALS}, 2, False),
        ({"stop": StopReason.TRIALS}, 3, True),
        ({"stop": StopReason.TRIALS}, None, True),
        ({"doubt": Doubt.MEMORY}, None, True),
        ({"doubt": Doubt.SPEED}, None, False),
    ],
)
def test_a_search_goes_on_where_something_is_left_to_try(
    changes: dict[str, Any], max_trials: int | None, goes_on: bool
) -> None:
    assert is_unfinished(replace(PROFILE, **changes), max_trials) == goes_on


@pytest.mark.parametrize(
    ("trial", "budgets", "known"),
    [
        (Trial(64, Outcome.FITS, host_bytes=50), Budgets(60), True),
        (Trial(64, Outcome.FITS, host_bytes=50), Budgets(40), False),
        (Trial(64, Outcome.FITS, host_bytes=50, device_bytes=90), Budgets(60, 80), False),
        (Trial(64, Outcome.OVER_BUDGET, host_bytes=50), Budgets(40), True),
        (Trial(64, Outcome.OVER_BUDGET, host_bytes=50), Budgets(60), False),
        (Trial(64, Outcome.OOM, host_bytes=50), Budgets(60), True),
        (Trial(64, Outcome.OOM, host_bytes=50, taken_by_others=9), Budgets(60), False),
        (Trial(64, Outcome.CRASH), Budgets(60), True),
        (Trial(64, Outcome.TOO_MANY), Budgets(60, 60), True),
        (Trial(64, Outcome.TIMEOUT), Budgets(60), False),
    ],
)
def test_only_what_would_end_the_same_way_is_known(trial: Trial, budgets: Budgets, known: bool) -> None:
    under_these = replace(trial, host_budget=budgets.host, device_budget=budgets.device)
    found = still_known(replace(PROFILE, trials=(trial,)), budgets)
    assert found == ({64: under_these} if known else {})


def test_the_last_trial_of_a_size_counts() -> None:
    trials = (Trial(64, Outcome.OOM), Trial(64, Outcome.FITS, overrides={"chunk": 64}))
    found = still_known(replace(PROFILE, trials=trials), Budgets(60))
    assert found[64].overrides == {"chunk": 64}
