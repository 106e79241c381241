# SPDX-License-Identifier: BSD-3-Clause
"""The search on synthetic curves, and in the simulations of the benchmarks: beside others and against the clock."""

import math
import statistics
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchmarks.bench_search import CURVES, GRANULE, HI, LO, Curve, Machine, limits
from benchmarks.bench_search_clock import SETTINGS, Card, ours
from benchmarks.bench_search_noise import COMPANIES, Company, downwards_pooled, outcomes, upwards_mean
from isaaclab_pc.num_envs.search import Objective, SearchResult, StopReason, search
from isaaclab_pc.num_envs.trends import MARGIN, capacity, fits_with_margin
from isaaclab_pc.num_envs.trial import Outcome, Trial


def winner(result: SearchResult) -> int:
    assert result.best is not None
    return result.best.num_envs


def find(curve: Curve, limit: int, seed: int = 0, **settings: object) -> tuple[SearchResult, Machine]:
    """Search on a synthetic curve."""
    machine = Machine(curve, limit, seed)
    defaults = {"lo": LO, "hi": HI, "granule": GRANULE, "objective": Objective.MEMORY}
    return search(machine.probe, **{**defaults, **settings}), machine  # pyright: ignore[reportArgumentType]


SEQUENCES = {
    "affine": [32, 256, 8192, 9792],
    "large fixed cost": [32, 64, 2048, 9376],
    "noisy": [32, 256, 8192, 9856],
    "superlinear": [32, 256, 8192, 11360, 9888],
    "sublinear": [32, 256, 3680, 7616, 9440, 9696],
    "jump": [32, 256, 8192, 11872, 9856, 8992, 9632],
    "plateau": [32, 128, 4096, 9152, 8928, 6048, 8736],
    "not monotone": [32, 256, 8192, 9536, 9344],
    "crash": [32, 256, 8192, 29376, 15520, 11264, 9600, 10400, 9984],
    "hang": [32, 256, 8192, 65536, 23168, 13792, 10624, 9344, 9952, 10272],
    "kill": [32, 256, 8192, 12736, 10208, 9152, 9664],
}


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.name)
def test_probe_sequence_on_each_curve(curve: Curve) -> None:
    result, machine = find(curve, 10_000)
    assert [trial.num_envs for trial in machine.trials] == SEQUENCES[curve.name]
    assert result.stop is StopReason.COMPLETE


def test_eleven_curves_cost_few_trials_and_hardly_any_environments() -> None:
    trials, failing, ratios = [], [], []
    for curve in CURVES:
        for limit in limits(100):
            result, machine = find(curve, limit)
            trials.append(len(machine.trials))
            failing.append(sum(not trial.fits for trial in machine.trials))
            if largest := machine.largest():
                ratios.append((result.best.num_envs if result.best else 0) / largest)
    assert len(CURVES) == 11
    assert statistics.median(trials) <= 5
    assert max(trials) <= 10
    assert statistics.median(failing) <= 1
    assert statistics.median(ratios) >= 0.98


@given(curve=st.sampled_from(CURVES), limit=st.integers(17, 60_000), seed=st.integers(0, 9))
@example(curve=CURVES[0], limit=17, seed=0)
def test_winner_on_any_curve_and_limit_is_a_size_that_ran(curve: Curve, limit: int, seed: int) -> None:
    result, machine = find(curve, limit, seed)
    assert len(machine.trials) <= 10
    assert list(result.trials) == machine.trials
    assert all(trial.num_envs % GRANULE == 0 for trial in machine.trials)
    if result.best is None:
        assert machine.largest() == 0 or curve.noise
    else:
        assert result.best in machine.trials
        assert fits_with_margin(result.best) or not any(fits_with_margin(trial) for trial in machine.trials)


def test_winners_on_a_noisy_curve_fit_again() -> None:
    noisy = next(curve for curve in CURVES if curve.noise)
    again = []
    for seed, limit in enumerate(limits(400)):
        result, machine = find(noisy, limit, seed)
        if result.best is not None and fits_with_margin(result.best):
            again += [machine.run(result.best.num_envs).fits for _ in range(20)]
    assert len(again) > 6000
    assert statistics.mean(again) >= 0.99


def both_memories(host: float, device: float) -> Callable[[int], Trial]:
    """Return a probe of a machine with 100 MB of each memory, 10 MB used before the first environment."""

    def probe(n: int) -> Trial:
        used, on_device = (round(1e6 * (10 + slope * n)) for slope in (host, device))
        outcome = Outcome.FITS if max(used, on_device) <= 10**8 else Outcome.OVER_BUDGET
        return Trial(n, outcome, host_bytes=used, host_budget=10**8, device_bytes=on_device, device_budget=10**8)

    return probe


@pytest.mark.parametrize(("host", "device"), [(0.09, 0.01), (0.01, 0.09)])
def test_the_memory_that_is_full_first_decides(host: float, device: float) -> None:
    result = search(both_memories(host, device), lo=16, hi=65536, granule=16, start=128, objective=Objective.MEMORY)
    assert winner(result) == 976, "976 use 97.84 MB, 992 would use 99.28"
    assert [trial.num_envs for trial in result.trials] == [128, 576, 976]


def test_capacity_is_the_line_through_two_trials_and_in_proportion_to_one() -> None:
    probe = both_memories(0.5, 0.1)
    assert capacity([], margin=0.0) == math.inf
    assert capacity([probe(20)], margin=0.0) == pytest.approx(100), "20 use 20 MB"
    assert capacity([probe(20), probe(40)], margin=0.0) == pytest.approx(180)
    assert capacity([probe(20), probe(40), probe(400)], margin=0.1) == pytest.approx(160)


def test_throughput_search_tries_no_larger_size_that_is_predicted_not_to_fit() -> None:
    machine = Machine(CURVES[0], 400)
    result = search(machine.probe, lo=32, hi=1024, granule=16, start=128, objective=Objective.THROUGHPUT)
    assert [trial.num_envs for trial in machine.trials] == [128, 320, 384]
    assert winner(result) == 384


@given(curve=st.sampled_from(CURVES), limit=st.integers(17, 2000), knee=st.floats(1, 5000))
def test_throughput_search_costs_no_more_than_ten_trials(curve: Curve, limit: int, knee: float) -> None:
    machine = Machine(curve, limit, fps=lambda n: 1000.0 * n / (n + knee))
    search(machine.probe, lo=32, hi=1024, granule=16, start=1024, objective=Objective.THROUGHPUT)
    assert len(machine.trials) <= 10


def compiling(n: int, tried: list[int]) -> Trial:
    """Return a trial that uses 1.2 of 8 GB and 1 MB for each environment; the first compiles kernels in 0.5 GB more."""
    first = not tried
    tried.append(n)
    used = round(1.2e9 + 1e6 * n + 5e8 * first)
    outcome = Outcome.FITS if used <= 8e9 else Outcome.OVER_BUDGET
    return Trial(n, outcome, host_bytes=min(used, 8 * 10**9), host_budget=8 * 10**9, compiled=first)


def test_a_trial_that_compiled_kernels_tells_no_slope() -> None:
    tried: list[int] = []
    result = search(lambda n: compiling(n, tried), lo=32, hi=65536, granule=32, objective=Objective.MEMORY)
    assert tried == [32, 128, 736, 6656], "736 is in proportion to the 128, whose memory alone is known"
    assert winner(result) == 6656


def test_capacity_of_a_trial_that_compiled_kernels_is_in_proportion_where_there_is_no_other() -> None:
    tried: list[int] = []
    first, second, third = (compiling(n, tried) for n in (32, 128, 256))
    assert capacity([first]) == pytest.approx(32 * 0.985 * 8 / 1.732)
    assert capacity([first, second, third]) == pytest.approx((0.985 * 8e9 - 1.2e9) / 1e6)


def test_the_last_trial_that_time_allows_stays_well_below_the_margin() -> None:
    def run(**limits: Any) -> SearchResult:
        now = [0.0]

        def probe(n: int) -> Trial:
            now[0] += 20 + n / 250
            used = 10**6 * (1500 + 5 * n)
            outcome = Outcome.FITS if used <= 72e9 else Outcome.OVER_BUDGET
            return Trial(n, outcome, device_bytes=used, device_budget=72 * 10**9, wall_seconds=20 + n / 250)

        bounds = {"lo": 64, "hi": 65536, "granule": 64, "start": 256}
        return search(probe, **bounds, objective=Objective.MEMORY, clock=lambda: now[0], **limits)

    free = run()
    assert [trial.num_envs for trial in free.trials] == [256, 2048, 13824], "70.6 GB of 72"
    in_time = run(max_seconds=180.0)
    assert [trial.num_envs for trial in in_time.trials] == [256, 2048, 13440], "68.7 GB of 72"
    assert in_time.stop is StopReason.COMPLETE, "what is left to gain is not worth a trial that may fail"


def test_winner_inside_the_margin_is_taken_only_when_nothing_holds() -> None:
    def probe(n: int) -> Trial:
        return Trial(n, Outcome.FITS if n <= 64 else Outcome.OOM, host_bytes=1000 * n, host_budget=64_100)

    assert winner(search(probe, lo=64, hi=128, granule=32, objective=Objective.MEMORY)) == 64
    roomier = search(probe, lo=32, hi=64, granule=32, objective=Objective.MEMORY)
    assert winner(roomier) == 32


def test_smallest_size_that_fits_without_the_margin_is_the_answer_and_nothing_smaller_is_tried() -> None:
    def probe(n: int) -> Trial:
        return Trial(n, Outcome.FITS, host_bytes=1000 * n, host_budget=32_100)

    result = search(probe, lo=32, hi=32, granule=16, floor=1, objective=Objective.MEMORY)
    assert [trial.num_envs for trial in result.trials] == [32]
    assert winner(result) == 32


def test_memory_below_the_smallest_size_is_followed_by_its_line() -> None:
    def probe(n: int) -> Trial:
        used = 1_000_000 + 1000 * n
        return Trial(n, Outcome.FITS if used <= 1_030_000 else Outcome.OOM, host_bytes=used, host_budget=1_030_000)

    result = search(probe, lo=32, hi=256, granule=16, floor=1, objective=Objective.MEMORY)
    assert [trial.num_envs for trial in result.trials] == [32, 16]
    assert winner(result) == 16, "it leaves less than the margin free"


@pytest.mark.parametrize("company", COMPANIES, ids=lambda company: company.name)
def test_other_programs_do_not_end_the_search_for_speed_early(company: Company) -> None:
    fail, lost, trials, _ = outcomes(downwards_pooled, company, runs=20)
    assert fail <= 0.03
    assert lost <= 0.05
    assert trials <= 3.5


def test_the_simulation_tells_a_search_that_other_programs_end_early() -> None:
    fail, lost, _, _ = outcomes(upwards_mean, COMPANIES[2], runs=20)
    assert fail > 0.3
    assert lost > 0.1


def test_nearly_all_memory_is_found_in_the_usual_time() -> None:
    for seed in range(100):
        card = Card(SETTINGS.max_seconds, seed, briefly=True)
        answer = ours(card, SETTINGS.max_seconds)
        assert 0.92 * card.largest() < answer < (1 - MARGIN / 2) * card.largest()
        assert len(card.trials) <= 4
