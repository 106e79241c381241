# SPDX-License-Identifier: BSD-3-Clause
"""When a process counts as hung, its memory as leaking, and a kill as the kernel's; and what is done about it."""

import math
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isaaclab_pc.supervise import oom_watch
from isaaclab_pc.supervise.deaths import DeathCause
from isaaclab_pc.supervise.oom_watch import OomWatch
from isaaclab_pc.supervise.watch import (
    _DUMP_SECONDS,
    _UNKILLABLE_SECONDS,
    SHORTEST_STALL_SECONDS,
    STARTUP_SECONDS,
    LeakWatch,
    StallWatch,
    WorkerWatch,
)

GIB = 1 << 30


def trained(watch: StallWatch, seconds: float, iterations: int = 10) -> float:
    for iteration in range(iterations + 1):
        watch.progress(iteration, iteration * seconds)
    return iterations * seconds


def test_before_the_first_iteration_there_is_half_an_hour():
    watch = StallWatch(None, 100.0)
    watch.progress(0, 200.0)
    assert not watch.is_stalled(200.0 + STARTUP_SECONDS)
    assert watch.is_stalled(201.0 + STARTUP_SECONDS)


def test_the_limit_follows_the_iterations_and_is_never_short():
    slow, fast, given_by_user = (StallWatch(timeout, 0.0) for timeout in (None, None, 7.0))
    trained(slow, 60.0)
    trained(fast, 0.5)
    trained(given_by_user, 60.0)
    assert slow.limit == 20 * 60.0
    assert fast.limit == SHORTEST_STALL_SECONDS
    assert given_by_user.limit == 7.0


def test_an_evaluation_that_goes_on_is_progress():
    watch = StallWatch(10.0, 0.0)
    now = trained(watch, 1.0)
    for _ in range(20):
        now += 5.0
        watch.progress(10, now)
        assert not watch.is_stalled(now)
    assert watch.is_stalled(now + 10.1)


def test_a_resumed_run_is_not_taken_for_a_fast_one():
    watch = StallWatch(None, 0.0)
    watch.progress(500, 60.0)
    assert watch.limit == STARTUP_SECONDS
    watch.progress(501, 120.0)
    assert watch.limit == 20 * 60.0


def leaking(sizes: list[int], seconds: float = 1.0) -> LeakWatch:
    watch = LeakWatch()
    for index, size in enumerate(sizes):
        watch.add(index * seconds, size)
    return watch


@given(st.integers(1, 100), st.floats(0.1, 100.0))
def test_steady_growth_is_extrapolated(growth, seconds):
    rate = growth << 24
    sizes = [GIB + index * rate for index in range(200)]
    watch = leaking(sizes, seconds)
    left = watch.seconds_left(20 * 20 * GIB)
    expected = (400 * GIB - sizes[-1]) / rate * seconds
    assert math.isclose(left, expected, rel_tol=1e-6)
    assert watch.must_act(sizes[-1] + 1, 1e9)


@given(st.lists(st.integers(GIB, GIB + GIB // 5), min_size=30, max_size=200))
def test_memory_that_wanders_but_does_not_grow_is_no_leak(sizes):
    assert leaking(sizes).seconds_left(2 * GIB) == math.inf


def test_a_buffer_that_grows_once_is_no_leak():
    assert leaking([GIB] * 40 + [3 * GIB] * 10).seconds_left(4 * GIB) == math.inf


def test_a_run_that_ends_before_the_limit_is_left_alone():
    watch = leaking([GIB + (index << 26) for index in range(100)])
    limit = GIB + (150 << 26)
    assert 40 < watch.seconds_left(limit) < 60
    assert not watch.must_act(limit, seconds_to_end=30)
    assert watch.must_act(limit, seconds_to_end=300)


def test_only_what_was_counted_lately_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    kills = 7
    monkeypatch.setattr(oom_watch, "memory_cgroups", lambda: [SimpleNamespace(oom_kills=lambda: kills)])
    monkeypatch.setattr(oom_watch, "RECENT_SECONDS", 10.0)
    watch = OomWatch(100.0)
    assert watch.look(101.0) == 0, "what was killed before it began is not counted"

    kills = 8
    assert watch.look(102.0) == 1
    assert [watch.look(now) for now in (105.0, 110.0, 111.9, 112.0)] == [1, 1, 1, 0]

    # Where nobody looked for a while, it may have been any time since.
    kills = 10
    assert watch.look(1000.0) == 2
    assert watch.look(1009.0) == 2
    assert watch.look(1010.0) == 0


def test_where_no_count_can_be_read_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oom_watch, "memory_cgroups", list)
    assert OomWatch(0.0).look(1.0) == 0


def test_a_process_that_no_signal_ends_is_given_up(tmp_path: Path) -> None:
    now = 0.0
    signals: list[int] = []
    child = cast(Any, SimpleNamespace(send_signal=signals.append))
    looks_after = WorkerWatch(tmp_path, None, lambda iteration: None, clock=lambda: now)
    assert not looks_after(child)

    now = STARTUP_SECONDS + 1
    assert not looks_after(child)
    assert (signals, looks_after.verdict and looks_after.verdict.cause) == ([signal.SIGABRT], DeathCause.STALLED)
    now += _DUMP_SECONDS + 1
    assert not looks_after(child)
    assert signals[1:] == [signal.SIGKILL]
    now += _UNKILLABLE_SECONDS
    assert looks_after(child)
