# SPDX-License-Identifier: BSD-3-Clause
"""The search where only success and speed of its trials are known, with and without limits of time and trials."""

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


COMPLETE, TIME = StopReason.COMPLETE, StopReason.TIME
SPEED = Objective.THROUGHPUT
DOWN = {"lo": 64, "hi": 65536, "granule": 64, "start": 1024}
FAST = {"objective": SPEED, "start": 1024}
SPEEDS = {32: 300.0, 64: 340.0, 128: 352.0, 256: 350.0}

SEQUENCES: dict[str, tuple[dict[str, Any], dict[str, Any], list[int], int | None, StopReason]] = {
    **{
        f"grows until a size fails by {failure}, then bisects": (
            *({"limit": 300, "failure": failure}, {}),
            *([32, 256, 1024, 512, 368, 304, 272, 288], 288, COMPLETE),
        )
        for failure in FAILURES
    },
    "everything fits": ({}, {"hi": 300}, [32, 256, 288], 288, COMPLETE),
    "goes down from the start": ({"limit": 200}, DOWN, [1024, 256, 128, 192], 192, COMPLETE),
    "nothing fits": ({"limit": 10}, {}, [32], None, COMPLETE),
    # No multiple of a quarter lies between.
    "just below the largest": (
        *({"limit": 113}, {"lo": 114, "hi": 114, "granule": 1, "floor": 113}),
        *([114, 113], 113, COMPLETE),
    ),
    "down to the floor": ({"limit": 0}, {"floor": 5}, [32, 16, 8, 5], None, COMPLETE),
    "far below the start": (
        *({"limit": 3}, {**DOWN, "floor": 1}),
        *([1024, 256, 128, 64, 32, 16, 8, 4, 2, 3], 3, COMPLETE),
    ),
    "halves until a size is slower, and 340 frames/s are within 5 % of 352": (
        *({"fps": SPEEDS.__getitem__}, {"objective": SPEED, "hi": 256, "start": 256}),
        *([256, 128, 64, 32], 64, COMPLETE),
    ),
    "speed grows to the end": ({"fps": float}, FAST, [1024, 512], 1024, COMPLETE),
    "goes to the top first": ({"fps": float}, {"objective": SPEED}, [32, 256, 1024, 512], 1024, COMPLETE),
    "bisects towards a limit while it pays": (
        *({"limit": 400, "fps": float}, FAST),
        *([1024, 512, 256, 128, 368, 432, 400, 416], 400, COMPLETE),
    ),
    # 384 is not worth a trial: 392 failed and is within 5 % of 376.
    "bisects no further than it pays": (
        *({"limit": 390, "fps": float}, {**FAST, "granule": 8}),
        *([1024, 512, 256, 128, 360, 432, 392, 376], 360, COMPLETE),
    ),
    "a limit that does not matter": (
        *({"limit": 400, "fps": lambda n: 100.0}, FAST),
        *([1024, 512, 256, 128, 64, 32], 32, COMPLETE),
    ),
    "a size slower than a smaller one runs again": (
        *({"fps": lambda n: 90.0 if n >= 256 else 100.0}, {"objective": SPEED, "hi": 256, "start": 256}),
        *([256, 128, 256, 64, 32], 32, COMPLETE),
    ),
    **{
        f"ends at a trial with the outcome {failure}": (
            *({"limit": 100, "failure": failure}, {}),
            *([32, 256], 32, StopReason.ERROR),
        )
        for failure in (Outcome.ERROR, Outcome.NAN)
    },
    "starts no trial that would end too late": (
        *({"seconds": lambda n: 25.0}, {"hi": 65536, "max_seconds": 90.0}),
        *([32, 256, 8192], 8192, TIME),
    ),
    "compiling takes no time of the next ones": (
        *({"seconds": lambda n: 100.0 if n == 32 else 15.0, "compiles": True}, {"max_seconds": 180.0}),
        *([32, 256, 1024], 1024, COMPLETE),
    ),
    "the first trial runs in any case": ({"seconds": lambda n: 5.0}, {"max_seconds": 1.0}, [32], 32, TIME),
    # After 10.5 and 14 s, 65.5 are left, and 0.9 of them are enough for 3132.
    "a size that would take too long is made smaller": (
        *({"seconds": lambda n: 10.0 + n / 64}, {"hi": 65536, "max_seconds": 90.0}),
        *([32, 256, 3120], 3120, TIME),
    ),
}
"""A machine, settings of the search, the sizes that it tries, its answer, and why it ends."""


@pytest.mark.parametrize("name", SEQUENCES)
def test_probe_sequence(name: str) -> None:
    values, settings, tried, answer, stop = SEQUENCES[name]
    machine = FakeMachine(**values)
    result = machine.search(**settings)
    assert machine.tried == tried
    assert (best_size(result), result.stop) == (answer, stop)
    assert result.frames_per_second == (machine.fps(answer) if answer else 0.0)


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
def test_sizes_below_the_smallest(limit: int, tried: list[int], found: int | None, objective: Objective) -> None:
    machine = FakeMachine(limit=limit, fps=float)
    result = machine.search(floor=1, objective=objective)
    assert machine.tried == tried
    assert best_size(result) == found
    assert result.stop is StopReason.COMPLETE


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

    def probe(n: int) -> Trial:
        tried.append(n)
        return Trial(n, Outcome.TOO_MANY if n > most else Outcome.FITS, float(n), most_envs=most)

    result = search(probe, lo=64, hi=65536, granule=64, start=4096, floor=1, objective=SPEED)
    assert tried == sizes
    assert best_size(result) == max(n for n in sizes if n <= most)
    assert result.stop is COMPLETE


def test_the_faster_of_two_runs_of_a_size_counts() -> None:
    disturbed = iter([900.0, 1112.0, 1253.0])
    machine = FakeMachine(fps=lambda n: next(disturbed))
    result = machine.search(objective=SPEED, start=256, hi=256)
    assert machine.tried == [256, 128, 256]
    assert (best_size(result), result.frames_per_second) == (256, 1253.0)


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

    result = search(probe, lo=32, hi=256, granule=16, start=256, objective=SPEED, clock=lambda: 0.0)
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


BOUNDS = st.tuples(st.integers(1, 300), st.integers(0, 5000), st.integers(1, 64)).filter(
    lambda b: -(-b[0] // b[2]) * b[2] <= b[0] + b[1]
)


@given(bounds=BOUNDS, limit=st.integers(0, 6000), start=st.integers(1, 6000))
def test_winner_is_near_the_largest_that_fits(bounds: tuple[int, int, int], limit: int, start: int) -> None:
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
)
def test_any_machine_however_erratic_gets_a_size_that_ran_and_no_size_is_tried_too_often(
    bounds: tuple[int, int, int],
    objective: Objective,
    start: int,
    data: st.DataObject,
) -> None:
    lo, extra, granule = bounds
    smallest = -(-lo // granule) * granule
    floor = data.draw(st.integers(1, smallest))

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
        clock=lambda: 0.0,
    )
    tried = [trial.num_envs for trial in result.trials]
    fits = [trial for trial in result.trials if trial.fits]
    assert max(Counter(tried).values()) <= (1 if objective is Objective.MEMORY else 2)
    assert all(n <= lo + extra and n % granule == 0 for n in tried if n >= smallest)
    assert min(tried) >= floor
    assert (result.best in fits) if fits else (result.best is None)


@given(knee=st.floats(1, 5000), limit=st.integers(32, 2000), start=st.sampled_from([32, 256, 1024]))
def test_throughput_winner_is_the_smallest_tried_size_near_the_best_speed(knee: float, limit: int, start: int) -> None:
    machine = FakeMachine(limit=limit, fps=saturating(knee))
    result = machine.search(objective=SPEED, start=start)
    assert result.best is not None
    fits = [trial for trial in result.trials if trial.fits]
    enough = (1 - TOLERANCE) * max(trial.frames_per_second for trial in fits)
    assert result.best.frames_per_second >= enough
    assert all(t.frames_per_second < enough for t in fits if t.num_envs < result.best.num_envs)
    reachable = saturating(knee)(min(limit, 1024) // 16 * 16)
    # Twice the tolerance: once for the winner, once for the bracket that is left; one granule more for small limits.
    assert result.best.frames_per_second >= reachable * (1 - TOLERANCE) ** 2 * (1 - 16 / limit)
