# SPDX-License-Identifier: BSD-3-Clause
"""How often a size runs, with which settings and budgets, and the time that all of that has."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from isaaclab_pc.num_envs import size_trials
from isaaclab_pc.num_envs.retry import retry_overrides
from isaaclab_pc.num_envs.size_trials import RetryPolicy, SearchClock, SizeTrials
from isaaclab_pc.num_envs.trial import FIRST_BUILD_SECONDS, Outcome, Overrides, Progress, TrainingPhase, Trial
from isaaclab_pc.num_envs.trial_runner import Budgets
from tests.unit.num_envs.workshop import never_retry

FITS, OOM, OVERFLOW, TIMEOUT = Outcome.FITS, Outcome.OOM, Outcome.OVERFLOW, Outcome.TIMEOUT


@dataclass
class Children:
    """Stand in for child processes: each ends as the next of the script."""

    script: list[Trial]
    seconds: float = 1.0
    """Time that each takes [s]."""
    now: float = 0.0
    budgets: list[Budgets] = field(default_factory=list)

    def run(self, argv: Sequence[str], num_envs: int, result: Path, log: Path, budgets: Budgets, *_: Any) -> Trial:
        self.now += self.seconds
        self.budgets.append(budgets)
        return self.script.pop(0)


@pytest.fixture
def try_size(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., tuple[Trial, list[Overrides]]]:
    """Try a size with such children; return its trial, and the overrides of each child."""

    def run(children: Children, retry: RetryPolicy = never_retry, free: int = 100) -> tuple[Trial, list[Overrides]]:
        monkeypatch.setattr(size_trials, "run_trial", children.run)
        tried: list[Overrides] = []
        sizes = SizeTrials(
            command=lambda *_: [],
            retry=retry,
            budgets=Budgets(100),
            read_budgets=lambda: Budgets(free),
            gpu=None,
            folder=tmp_path,
            on_trial=lambda trial: tried.append(trial.overrides),
            clock=SearchClock(30.0, lambda: children.now),
            overrides={},
            may_compile_kernels=True,
        )
        trial = sizes.run(64)
        while children.script:
            trial = sizes.run(32)
        assert sizes.overrides == trial.overrides
        return trial, tried

    return run


def trials(*outcomes: Outcome, **values: Any) -> list[Trial]:
    return [Trial(64, outcome, frames_per_second=index, **values) for index, outcome in enumerate(outcomes)]


COMPILED = Trial(64, FITS, compiled=True)


@pytest.mark.parametrize(
    ("script", "runs", "answer"),
    [
        (trials(FITS), 1, FITS),
        # Kernels that were compiled took memory that no later process needs.
        (trials(OOM, FITS), 2, FITS),
        (trials(Outcome.OVER_BUDGET, OOM), 2, OOM),
        ([COMPILED, *trials(OOM)], 2, OOM),
        # It had no time to run again.
        ([COMPILED, *trials(TIMEOUT)], 2, FITS),
        # Too many for the agent: the next one may compile them.
        (trials(Outcome.TOO_MANY, OOM, FITS), 3, FITS),
    ],
)
def test_a_child_that_compiled_kernels_runs_again(
    try_size: Callable, script: list[Trial], runs: int, answer: Outcome
) -> None:
    trial, tried = try_size(Children(script))
    assert trial.outcome is answer
    assert tried == runs * [{}]


def double_the_room(trial: Trial, overrides: Overrides) -> Overrides | None:
    return {"room": 2 * overrides.get("room", 1)} if trial.outcome is OVERFLOW else None


def test_other_settings_are_tried_up_to_three_times(try_size: Callable) -> None:
    trial, tried = try_size(Children(trials(OVERFLOW, OVERFLOW, OVERFLOW, OVERFLOW)), double_the_room)
    assert trial.outcome is OVERFLOW
    assert tried == [{}, {"room": 2}, {"room": 4}, {"room": 8}]


def test_a_size_that_fits_stays_the_answer_where_there_is_no_time_for_larger_buffers(try_size: Callable) -> None:
    def larger(trial: Trial, overrides: Overrides) -> Overrides | None:
        return {"room": 2} if trial.fits else None

    trial, tried = try_size(Children(trials(FITS, TIMEOUT), seconds=14.0), larger)
    assert (trial.outcome, trial.overrides) == (FITS, {})
    assert tried == [{}, {"room": 2}]
    _, tried = try_size(Children(trials(FITS, FITS), seconds=31.0), larger)
    assert tried == [{}, {"room": 2}], "nor for a third trial"


def test_an_update_that_does_not_fit_is_tried_with_a_smaller_chunk(try_size: Callable) -> None:
    progress = Progress(TrainingPhase.UPDATE, 4096, chunk=32_768)
    trial, tried = try_size(Children(trials(OOM, OOM, FITS, progress=progress)), retry_overrides)
    assert trial.fits
    assert tried == [{}, {}, {"chunk": 512}]


def test_memory_that_others_took_lowers_the_budget_and_changes_no_setting(try_size: Callable) -> None:
    compiles_nothing, robbed, again = trials(FITS, OOM, FITS)
    children = Children([compiles_nothing, replace(robbed, taken_by_others=50), again])
    trial, tried = try_size(children, lambda trial, overrides: {"chunk": 64} if trial.outcome is OOM else None, free=50)
    assert trial.fits
    assert tried == [{}, {}, {}]
    assert [budgets.host for budgets in children.budgets] == [100, 100, 50]


def test_the_first_build_has_time_of_its_own_and_the_search_has_its_time_after_it() -> None:
    now = 100.0
    clock = SearchClock(180.0, lambda: now)
    assert (clock.build_left(), clock.spent(), clock.left()) == (FIRST_BUILD_SECONDS, 0.0, 180.0)

    now += 300
    assert not clock.is_built
    assert (clock.build_left(), clock.spent(), clock.left()) == (FIRST_BUILD_SECONDS - 300, 0.0, 180.0)
    now += FIRST_BUILD_SECONDS
    assert (clock.build_left(), clock.spent(), clock.left()) == (0.0, 180.0, 0.0), "it took too long"

    clock.built()
    now += 50
    clock.built()
    assert clock.is_built
    assert (clock.build_left(), clock.spent(), clock.left()) == (None, 50.0, 130.0)
    now += 500
    assert clock.left() == 0.0
