# SPDX-License-Identifier: BSD-3-Clause
"""The search where only success and speed of its trials are known, with and without limits of time and trials."""

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.num_envs.search import BRACKET, Objective, SearchResult, StopReason, search
from isaaclab_pc.num_envs.trends import TOLERANCE, pooled_speeds
from isaaclab_pc.num_envs.trial import Outcome, Trial

FAILURES = [Outcome.OVER_BUDGET, Outcome.OOM, Outcome.CRASH, Outcome.TIMEOUT]


class FakeMachine:
    """A machine with a limit and a speed, whose trials take time on a fake clock."""

    def __init__(
        self,
        limit: float = math.inf,
        fps: Callable[[int], float] = lambda n: 0.0,
        seconds: Callable[[int], float] = lambda n: 0.0,
        failure: Outcome = Outcome.OOM,
        *,
        compiles: bool = False,
    ) -> None:
        self.limit, self.fps, self.seconds, self.failure, self.compiles = limit, fps, seconds, failure, compiles
        self.tried: list[int] = []
        self.now = 0.0

    def probe(self, num_envs: int) -> Trial:
        self.tried.append(num_envs)
        seconds = self.seconds(num_envs)
        self.now += seconds
        if num_envs > self.limit:
            return Trial(num_envs, self.failure, wall_seconds=seconds)
        compiled = self.compiles and len(self.tried) == 1
        return Trial(num_envs, Outcome.FITS, self.fps(num_envs), wall_seconds=seconds, compiled=compiled)

    def search(self, **settings: object) -> SearchResult:
        defaults = {"lo": 32, "hi": 1024, "granule": 16, "objective": Objective.MEMORY}
        return search(self.probe, **{**defaults, **settings}, clock=lambda: self.now)  # pyright: ignore[reportArgumentType]


def saturating(knee: float) -> Callable[[int], float]:
    return lambda n: 1000.0 * n / (n + knee)


def best_size(result: SearchResult) -> int | None:
    return None if result.best is None else result.best.num_envs


@pytest.mark.parametrize("failure", FAILURES)
def test_search_that_memory_does_not_guide_grows_until_a_size_fails_then_bisects(failure: Outcome) -> None:
    machine = FakeMachine(limit=300, failure=failure)
    result = machine.search()
    assert machine.tried == [32, 256, 1024, 512, 368, 304, 272, 288]
    assert best_size(result) == 288
    assert result.stop is StopReason.COMPLETE


def test_memory_search_ends_at_the_largest_allowed_size_when_everything_fits() -> None:
    machine = FakeMachine()
    result = machine.search(hi=300)
    assert machine.tried == [32, 256, 288]
    assert best_size(result) == 288
    assert result.stop is StopReason.COMPLETE


def test_search_goes_down_from_the_start_until_a_size_fits() -> None:
    machine = FakeMachine(limit=200)
    result = machine.search(lo=64, hi=65536, granule=64, start=1024)
    assert machine.tried == [1024, 256, 128, 192]
    assert best_size(result) == 192


def test_nothing_fits_is_an_answer_without_a_winner_after_the_smallest_size() -> None:
    machine = FakeMachine(limit=10)
    result = machine.search()
    assert machine.tried == [32]
    assert result.best is None
    assert result.stop is StopReason.COMPLETE


@pytest.mark.parametrize(
    ("limit", "tried", "found"),
    [
        (16, [32, 16, 24, 20], 16),
        (21, [32, 16, 24, 20], 20),
        (25, [32, 16, 24, 28], 24),
        (9, [32, 16, 8, 12, 10], 8),
        (5, [32, 16, 8, 4, 5, 6], 5),
        (1, [32, 16, 8, 4, 2, 1], 1),
        (0, [32, 16, 8, 4, 2, 1], None),
    ],
)
@pytest.mark.parametrize("objective", list(Objective))
def test_below_the_smallest_size_sizes_are_halved_and_the_answer_is_found_with_a_finer_granule(
    limit: int, tried: list[int], found: int | None, objective: Objective
) -> None:
    machine = FakeMachine(limit=limit, fps=float)
    result = machine.search(floor=1, objective=objective)
    assert machine.tried == tried
    assert best_size(result) == found
    assert result.stop is StopReason.COMPLETE


def test_a_size_just_below_the_largest_is_found_though_no_multiple_of_a_quarter_lies_between() -> None:
    machine = FakeMachine(limit=113)
    result = machine.search(lo=114, hi=114, granule=1, floor=113)
    assert machine.tried == [114, 113]
    assert best_size(result) == 113


def test_sizes_below_the_smallest_keep_to_the_floor_and_to_the_granule_that_was_asked_for() -> None:
    machine = FakeMachine(limit=0)
    machine.search(floor=5)
    assert machine.tried == [32, 16, 8, 5]
    multiples = FakeMachine(limit=0)
    multiples.search(lo=96, granule=24, floor=24, finest=24)
    assert multiples.tried == [96, 48, 24]
    above = FakeMachine(limit=3)
    above.search(lo=64, hi=65536, granule=64, start=1024, floor=1)
    assert above.tried == [1024, 256, 128, 64, 32, 16, 8, 4, 2, 3]


def keeping_to(most: int, tried: list[int], fps: Callable[[int], float] = float) -> Callable[[int], Trial]:
    """Return a probe that refuses more environments than an agent asks for."""

    def probe(n: int) -> Trial:
        tried.append(n)
        if n > most:
            return Trial(n, Outcome.TOO_MANY, most_envs=most)
        return Trial(n, Outcome.FITS, frames_per_second=fps(n), most_envs=most)

    return probe


@pytest.mark.parametrize(
    ("most", "sizes"),
    [
        (12_288, [4096, 12_288, 6144]),
        (4096, [4096, 2048]),
        (512, [4096, 512, 256]),
        (500, [4096, 448, 192]),
        (48, [4096, 64, 32, 48, 56]),
    ],
)
def test_no_size_is_tried_above_what_the_agent_asks_for_once_that_is_known(most: int, sizes: list[int]) -> None:
    tried: list[int] = []
    bounds = {"lo": 64, "hi": 65536, "granule": 64, "start": 4096, "floor": 1}
    result = search(keeping_to(most, tried), **bounds, objective=Objective.THROUGHPUT)  # pyright: ignore[reportArgumentType]
    assert tried == sizes
    assert best_size(result) == max(n for n in sizes if n <= most)
    assert result.stop is StopReason.COMPLETE


def test_throughput_search_halves_until_a_size_is_slower_than_the_best() -> None:
    speeds = {32: 300.0, 64: 340.0, 128: 352.0, 256: 350.0}
    machine = FakeMachine(fps=speeds.__getitem__)
    result = machine.search(objective=Objective.THROUGHPUT, hi=256, start=256)
    assert machine.tried == [256, 128, 64, 32]
    assert best_size(result) == 64, "340 frames/s are within 5 % of 352"
    assert result.frames_per_second == 340.0


def test_throughput_search_ends_at_the_largest_size_when_speed_grows_to_the_end() -> None:
    machine = FakeMachine(fps=float)
    result = machine.search(objective=Objective.THROUGHPUT, start=1024)
    assert machine.tried == [1024, 512]
    assert best_size(result) == 1024


def test_throughput_search_that_starts_lower_goes_to_the_top_first() -> None:
    machine = FakeMachine(fps=float)
    assert best_size(machine.search(objective=Objective.THROUGHPUT)) == 1024
    assert machine.tried == [32, 256, 1024, 512]


def test_a_size_that_looks_slower_than_a_smaller_one_runs_a_second_time() -> None:
    machine = FakeMachine(fps=lambda n: 90.0 if n >= 256 else 100.0)
    result = machine.search(objective=Objective.THROUGHPUT, start=256, hi=256)
    assert machine.tried == [256, 128, 256, 64, 32]
    assert best_size(result) == 32

    disturbed = iter([900.0, 1112.0, 1253.0])
    machine = FakeMachine(fps=lambda n: next(disturbed))
    result = machine.search(objective=Objective.THROUGHPUT, start=256, hi=256)
    assert machine.tried == [256, 128, 256]
    assert best_size(result) == 256
    assert result.frames_per_second == 1253.0


@pytest.mark.parametrize(
    ("second", "answer", "tried"),
    [(Outcome.TIMEOUT, 128, [256, 128, 256, 64]), (Outcome.OOM, 128, [256, 128, 256, 64, 176])],
)
def test_a_second_run_that_fails_counts_unless_it_had_no_time(second: Outcome, answer: int, tried: list[int]) -> None:
    outcomes = {256: iter([Outcome.FITS, second])}
    speeds = {256: 500.0, 176: 1010.0, 128: 1000.0, 64: 700.0}
    sizes: list[int] = []

    def probe(n: int) -> Trial:
        sizes.append(n)
        return Trial(n, next(outcomes[n]) if n in outcomes else Outcome.FITS, speeds[n])

    result = search(probe, lo=32, hi=256, granule=16, start=256, objective=Objective.THROUGHPUT, clock=lambda: 0.0)
    assert sizes == tried
    assert best_size(result) == answer


def timed(n: int, rollout: float, update: float, **more: Any) -> Trial:
    """Return a trial that is known by its least times, of 4096 samples."""
    seconds = {"rollout": rollout, "update": update}
    values = {"samples": 4096, "minibatch": (1024,), "seconds": seconds, **more}
    return Trial(n, Outcome.FITS, 4096 / (rollout + update), **values)


def test_the_least_update_of_all_trials_and_the_least_rollout_of_a_size_make_its_speed() -> None:
    # Seen on a machine with two other programs: the update is the same work at both sizes.
    trials = [timed(32, 3.24, 1.30), timed(64, 2.06, 5.12), timed(64, 2.50, 1.40)]
    assert pooled_speeds(trials[:2]) == {32: pytest.approx(4096 / 4.54), 64: pytest.approx(4096 / 3.36)}
    assert pooled_speeds(trials) == pytest.approx(pooled_speeds(trials[:2]))
    assert pooled_speeds([*trials, Trial(128, Outcome.OOM), Trial(256, Outcome.FITS, 7.0)])[256] == 7.0


@pytest.mark.parametrize("other", [{"minibatch": (512,)}, {"minibatch": (1024, 16)}, {"overrides": {"chunk": 64}}])
def test_updates_of_other_minibatches_or_settings_are_other_work(other: dict[str, Any]) -> None:
    speeds = pooled_speeds([timed(32, 3.24, 1.30), timed(64, 2.06, 5.12, **other)])
    assert speeds == {32: pytest.approx(4096 / 4.54), 64: pytest.approx(4096 / 7.18)}


def test_updates_are_compared_by_the_time_for_a_sample() -> None:
    speeds = pooled_speeds([timed(32, 3.0, 1.0), timed(48, 2.2, 4.0, samples=4512)])
    assert speeds[48] == pytest.approx(4512 / (2.2 + 1.0 * 4512 / 4096))


def test_throughput_search_bisects_towards_a_memory_limit_only_while_it_pays() -> None:
    machine = FakeMachine(limit=400, fps=float)
    result = machine.search(objective=Objective.THROUGHPUT, start=1024)
    assert machine.tried == [1024, 512, 256, 128, 368, 432, 400, 416]
    assert best_size(result) == 400
    near = FakeMachine(limit=390, fps=float)
    near.search(objective=Objective.THROUGHPUT, start=1024, granule=8)
    assert near.tried[-3:] == [432, 392, 376], "384 is not worth a trial: 392 failed and is within 5 % of 376"
    flat = FakeMachine(limit=400, fps=lambda n: 100.0)
    assert best_size(flat.search(objective=Objective.THROUGHPUT, start=1024)) == 32
    assert flat.tried == [1024, 512, 256, 128, 64, 32]


def test_error_of_the_users_code_stops_the_search_with_its_trial_last() -> None:
    machine = FakeMachine(limit=100, failure=Outcome.ERROR)
    result = machine.search()
    assert machine.tried == [32, 256]
    assert result.stop is StopReason.ERROR
    assert result.trials[-1].outcome is Outcome.ERROR


def test_time_limit_keeps_the_best_so_far_and_starts_no_trial_that_would_end_too_late() -> None:
    machine = FakeMachine(seconds=lambda n: 25.0)
    result = machine.search(hi=65536, max_seconds=90.0)
    assert machine.tried == [32, 256, 8192], "75 s are gone, 15 s are left"
    assert best_size(result) == 8192
    assert result.stop is StopReason.TIME


def test_first_trial_that_compiles_kernels_does_not_end_the_search() -> None:
    machine = FakeMachine(seconds=lambda n: 100.0 if n == 32 else 15.0, compiles=True)
    machine.search(max_seconds=180.0)
    assert machine.tried == [32, 256, 1024]


def test_first_trial_runs_however_little_time_there_is() -> None:
    machine = FakeMachine(seconds=lambda n: 5.0)
    result = machine.search(max_seconds=1.0)
    assert machine.tried == [32]
    assert best_size(result) == 32


def test_a_size_that_takes_longer_than_the_time_that_is_left_is_made_smaller() -> None:
    machine = FakeMachine(seconds=lambda n: 10.0 + n / 64)
    result = machine.search(hi=65536, max_seconds=90.0)
    # After 10.5 and 14 s, 65.5 are left, and 0.9 of them are enough for 3132.
    assert machine.tried == [32, 256, 3120]
    assert best_size(result) == 3120
    assert machine.now <= 90.0
    assert result.stop is StopReason.TIME


def test_trial_limit_keeps_the_best_so_far() -> None:
    machine = FakeMachine(limit=300)
    result = machine.search(max_trials=3)
    assert machine.tried == [32, 256, 1024]
    assert best_size(result) == 256
    assert result.stop is StopReason.TRIALS


@pytest.mark.parametrize(
    ("bounds", "named"),
    [
        ({"lo": 64, "hi": 32}, "scaling.min=64"),
        ({"granule": 0}, "scaling.granule=0"),
        ({"lo": 17, "hi": 31}, "scaling.granule=16"),
    ],
)
def test_impossible_bounds_are_refused_before_any_trial(bounds: dict[str, int], named: str) -> None:
    machine = FakeMachine()
    with pytest.raises(ConfigError, match=named):
        machine.search(**bounds)
    assert machine.tried == []


BOUNDS = st.tuples(st.integers(1, 300), st.integers(0, 5000), st.integers(1, 64)).filter(
    lambda b: -(-b[0] // b[2]) * b[2] <= b[0] + b[1]
)


@given(bounds=BOUNDS, limit=st.integers(0, 6000), start=st.integers(1, 6000))
def test_without_memory_readings_the_winner_is_near_the_largest_that_fits(
    bounds: tuple[int, int, int], limit: int, start: int
) -> None:
    lo, extra, granule = bounds
    machine = FakeMachine(limit=limit)
    result = machine.search(lo=lo, hi=lo + extra, granule=granule, start=start)
    sizes = [n for n in range(granule, lo + extra + 1, granule) if n >= lo]
    true = max((n for n in sizes if n <= limit), default=None)
    found = best_size(result)
    assert (found is None) == (true is None)
    assert set(machine.tried) <= set(sizes)
    if found is not None and true is not None:
        assert found <= true < max(found * (1 + BRACKET), found + granule)


@given(
    bounds=BOUNDS,
    objective=st.sampled_from(list(Objective)),
    start=st.integers(1, 6000),
    data=st.data(),
    max_trials=st.none() | st.integers(1, 6),
    keeps_granule=st.booleans(),
)
def test_any_machine_however_erratic_gets_a_size_that_ran_and_no_size_is_tried_too_often(
    bounds: tuple[int, int, int],
    objective: Objective,
    start: int,
    data: st.DataObject,
    max_trials: int | None,
    keeps_granule: bool,
) -> None:
    lo, extra, granule = bounds
    smallest = -(-lo // granule) * granule
    finest = granule if keeps_granule else 1
    floor = finest * data.draw(st.integers(1, smallest // finest))

    def probe(num_envs: int) -> Trial:
        outcome = data.draw(st.sampled_from([*5 * [Outcome.FITS], *Outcome]))
        return Trial(num_envs, outcome, frames_per_second=data.draw(st.floats(0, 1e5)))

    result = search(
        probe,
        lo=lo,
        hi=lo + extra,
        granule=granule,
        objective=objective,
        start=start,
        floor=floor,
        finest=finest,
        max_trials=max_trials,
        clock=lambda: 0.0,
    )
    tried = [trial.num_envs for trial in result.trials]
    fits = [trial for trial in result.trials if trial.fits]
    assert max(Counter(tried).values()) <= (1 if objective is Objective.MEMORY else 2)
    assert all(n <= lo + extra and n % granule == 0 for n in tried if n >= smallest)
    assert all(n >= floor and n % finest == 0 for n in tried)
    assert max_trials is None or len(tried) <= max_trials
    assert (result.best in fits) if fits else (result.best is None)


@given(knee=st.floats(1, 5000), limit=st.integers(32, 2000), start=st.sampled_from([32, 256, 1024]))
def test_throughput_winner_is_the_smallest_tried_size_near_the_best_speed(knee: float, limit: int, start: int) -> None:
    machine = FakeMachine(limit=limit, fps=saturating(knee))
    result = machine.search(objective=Objective.THROUGHPUT, start=start)
    assert result.best is not None
    fits = [trial for trial in result.trials if trial.fits]
    enough = (1 - TOLERANCE) * max(trial.frames_per_second for trial in fits)
    assert result.best.frames_per_second >= enough
    assert all(t.frames_per_second < enough for t in fits if t.num_envs < result.best.num_envs)
    reachable = saturating(knee)(min(limit, 1024) // 16 * 16)
    # Twice the tolerance: once for the winner, once for the bracket that is left; one granule more for small limits.
    assert result.best.frames_per_second >= reachable * (1 - TOLERANCE) ** 2 * (1 - 16 / limit)
