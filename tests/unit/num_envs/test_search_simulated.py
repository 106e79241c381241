# SPDX-License-Identifier: BSD-3-Clause
"""The search in the simulations of the benchmarks: beside other programs, and against the clock."""

import pytest

from benchmarks.bench_search_clock import SETTINGS, Card, ours
from benchmarks.bench_search_noise import COMPANIES, Company, downwards_pooled, outcomes, upwards_mean
from isaaclab_pc.num_envs.trends import MARGIN


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
