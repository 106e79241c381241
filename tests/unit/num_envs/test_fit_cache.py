# SPDX-License-Identifier: BSD-3-Clause
"""Answers that are remembered: taken, tried once more, or searched anew."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.num_envs.fit import ProbeError, _still_known
from isaaclab_pc.num_envs.profile import Answer, Doubt, Profile, ProfileCache
from isaaclab_pc.num_envs.search import StopReason
from isaaclab_pc.num_envs.trial import Outcome, Trial
from isaaclab_pc.num_envs.trial_runner import Budgets
from tests.unit.num_envs.workshop import KEY, MEMORY_HUNGRY, MIB, SATURATED, Workshop

NO_CHILD = "raise AssertionError('no child is started')"


def test_second_run_takes_the_answer_from_the_cache_unless_key_or_settings_differ(workshop: Workshop) -> None:
    first = workshop.fit(SATURATED)
    again = workshop.fit(NO_CHILD)
    assert (again.num_envs, bool(again.earlier_date), again.trials) == (64, True, ())
    assert (again.earlier_trials, bool(again.earlier_date)) == (first.trials, True)
    assert (first.earlier_trials, first.earlier_date) == ((), "")
    assert workshop.tried == []
    assert "scaling.cache=refresh" in again.reason
    assert not workshop.fit(SATURATED, key={**KEY, "task": "lift"}).earlier_date
    assert not workshop.fit(SATURATED, max=64).earlier_date


def test_refresh_searches_again_and_keeps_the_new_answer(workshop: Workshop) -> None:
    workshop.fit(SATURATED)
    assert workshop.fit("fits(100)", cache="refresh").num_envs == 32
    assert workshop.fit("fits(100)").num_envs == 32
    assert workshop.tried == []


def test_ignore_neither_reads_nor_writes_the_cache(workshop: Workshop) -> None:
    assert not workshop.fit("fits(100)", cache="ignore").earlier_date
    assert not (workshop.folder / "cache").exists()
    workshop.fit("fits(100)")
    assert not workshop.fit("fits(100)", cache="ignore").earlier_date


def test_cached_answer_is_tried_when_memory_is_short(workshop: Workshop, set_free: Callable[[int], None]) -> None:
    code = MEMORY_HUNGRY.replace("// 4", "")  # so much that shared pages of other programs are noise
    set_free(1000 * MIB)
    first = workshop.fit(code, max=128)
    peak = max(trial.host_bytes for trial in first.trials if trial.num_envs == first.num_envs)
    set_free(int(peak * 1.06 / 0.8))
    assert workshop.fit(NO_CHILD, max=128).earlier_date, "five percent are enough"
    set_free(int(peak * 1.04 / 0.8))
    again = workshop.fit(code, max=128)
    assert [trial.num_envs for trial in again.trials] == workshop.tried == [first.num_envs]
    assert (again.num_envs, bool(again.earlier_date)) == (first.num_envs, True)
    assert "scaling.cache=refresh" in again.reason
    others = tuple(trial for trial in first.trials if trial.num_envs != first.num_envs)
    assert again.earlier_trials == others, "the size that was tried again stands there once"
    assert workshop.left_over == []
    set_free(1000 * MIB)
    third = workshop.fit(NO_CHILD, max=128)
    assert third.earlier_trials == (*others, *again.trials)
    assert third.earlier_date == again.earlier_date


def test_search_starts_at_a_cached_answer(workshop: Workshop, set_free: Callable[[int], None]) -> None:
    set_free(1000 * MIB)
    first = workshop.fit(MEMORY_HUNGRY, max=256)
    assert first.num_envs == 256
    set_free(int(60 * MIB / 0.8))
    again = workshop.fit(MEMORY_HUNGRY, max=256)
    assert workshop.tried[0] == 256
    assert workshop.tried.count(256) == 1, "the trial that failed is not run again"
    assert not again.earlier_date
    assert 32 <= again.num_envs < 256
    assert [trial.num_envs for trial in again.trials] == workshop.tried
    assert workshop.fit(MEMORY_HUNGRY, max=256).num_envs == again.num_envs


def test_error_of_a_cached_answer_is_shown(workshop: Workshop, set_free: Callable[[int], None]) -> None:
    set_free(1000 * MIB)
    workshop.fit(MEMORY_HUNGRY, max=64)
    set_free(1 * MIB)
    with pytest.raises(ConfigError, match=r"scaling\.budget"):
        workshop.fit(MEMORY_HUNGRY, max=64)
    set_free(20 * MIB)
    with pytest.raises(ProbeError, match="KeyError"):
        workshop.fit("raise KeyError('gone')", max=64)
    assert workshop.tried == [64]


def test_search_that_was_cut_short_goes_on_from_its_trials(workshop: Workshop, set_free: Callable[[int], None]) -> None:
    set_free(1000 * MIB)
    workshop.each_trial = 10.0
    first = workshop.fit("fits(n)", max_seconds=10)
    assert (first.num_envs, workshop.tried) == (256, [256])
    again = workshop.fit("fits(n)", max_seconds=10)
    assert (again.num_envs, workshop.tried) == (256, [128])
    assert [trial.num_envs for trial in again.trials] == [128]
    assert again.earlier_trials == first.trials
    assert workshop.fit(NO_CHILD).num_envs == 256, "it is complete, whatever time the next one has"


def correct(answer: Answer | None, **changes: Any) -> None:
    """Change an answer in the cache as a training does."""
    assert answer is not None
    cache = ProfileCache()
    profile = cache.get(answer.key)
    assert profile is not None
    cache.put(answer.key, replace(profile, **changes))


@pytest.mark.parametrize(("speed", "tried"), [("340", [64]), ("500", [64, 128, 128, 32])])
def test_answer_in_doubt_is_tried_once_more(workshop: Workshop, speed: str, tried: list[int]) -> None:
    first = workshop.fit(SATURATED, max=128)
    correct(first.answer, doubt=Doubt.SPEED)
    again = workshop.fit(SATURATED.replace("340", speed), max=128)
    assert (again.num_envs, workshop.tried) == (64, tried)
    assert bool(again.earlier_date) == (len(tried) == 1)
    assert workshop.fit(NO_CHILD, max=128).earlier_date, "the doubt is gone"


def test_answer_that_a_training_ruled_out_is_not_taken_again(workshop: Workshop) -> None:
    first = workshop.fit("fits(n)", max=128)
    assert first.num_envs == 128
    trials = tuple(
        replace(trial, outcome=Outcome.OOM, frames_per_second=0.0) if trial.num_envs == 128 else trial
        for trial in first.trials
    )
    correct(first.answer, num_envs=64, trials=trials, doubt=Doubt.MEMORY)
    again = workshop.fit("fits(n)", max=128)
    assert again.num_envs < 128
    assert 128 not in workshop.tried
    assert workshop.fit(NO_CHILD, max=128).num_envs == again.num_envs


def test_a_run_keeps_what_it_needs_to_correct_the_cache(workshop: Workshop) -> None:
    code = """
with open(path.replace(".json", ".phase"), "w") as file:
    json.dump({"phase": "update", "minibatch_size": 512}, file)
json.dump({"num_envs": n, "outcome": "fits", "frames_per_second": 7}, open(path, "w"))
"""
    first = workshop.fit(code, max=32)
    assert first.answer is not None
    profile = ProfileCache().get(first.answer.key)
    assert profile is not None
    expected = Answer(first.answer.key, 32, profile.frames_per_second, minibatch_size=512)
    assert first.answer == expected
    assert workshop.fit("", max=32).answer == first.answer
    assert workshop.fit(code, max=32, cache="ignore").answer is None


@pytest.mark.parametrize(
    ("stop", "doubt", "goes_on"),
    [
        (StopReason.COMPLETE, None, False),
        (StopReason.TIME, None, True),
        (StopReason.COMPLETE, Doubt.MEMORY, True),
        (StopReason.COMPLETE, Doubt.SPEED, False),
    ],
)
def test_unfinished_search(stop: StopReason, doubt: Doubt | None, goes_on: bool) -> None:
    trials = (Trial(32, Outcome.FITS), Trial(64, Outcome.OOM))
    assert Profile(32, 1.0, 10, None, stop, trials, doubt=doubt).is_unfinished == goes_on


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
    # The last trial of a size counts.
    found = _still_known((Trial(64, Outcome.OOM), trial), budgets)
    assert found == ({64: under_these} if known else {})
