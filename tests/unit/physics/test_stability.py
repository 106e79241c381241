# SPDX-License-Identifier: BSD-3-Clause
"""Grids of physics settings, failure rates, and the choice of the cheapest that holds."""

import pytest

from isaaclab_pc.physics.stability import Cell, cheapest, grid


def cell(speed: float, *, failed: int = 0, success: float | None = None, note: str = "") -> Cell:
    return Cell({"substeps": speed}, 30_000, failed, cost=1000 / speed, success=success, note=note)


@pytest.mark.parametrize(
    ("measured", "rate"),
    [
        (Cell({}, 50_000, 3), "60"),
        # The rule of three.
        (Cell({}, 30_000, 0), "0 (< 100)"),
        (Cell({}, note="crashed"), ""),
    ],
)
def test_the_rate_of_failures_is_per_million_steps(measured: Cell, rate: str) -> None:
    assert measured.rate == rate


def test_what_the_user_gave_stays() -> None:
    settings = grid("ovphysx", {"dt": None, "decimation": None, "position_iterations": 8})
    assert settings == [{"decimation": 1}, {"decimation": 2}, {"decimation": 4}]
    assert {"decimation"} & set(grid("ovphysx", {"dt": 0.01})[0]) == set()
    assert grid("newton_mjwarp", {"substeps": 2, "position_iterations": 5}) == [{}]


def test_a_grid_goes_from_the_coarsest_to_the_finest() -> None:
    settings = grid("newton_mjwarp", {})
    assert settings[0] == {"substeps": 1, "position_iterations": 5}
    assert settings[-1] == {"substeps": 8, "position_iterations": 20}
    assert len(settings) == 12


@pytest.mark.parametrize(
    ("cells", "chosen"),
    [
        ([cell(900, failed=1), cell(800, note="dropped contacts"), cell(700), cell(600)], 2),
        # The expert may lose little.
        ([cell(900, success=0.90), cell(800, success=0.96), cell(700, success=1.0)], 1),
        ([Cell({}, note="crashed"), cell(1, failed=3)], None),
    ],
)
def test_the_cheapest_costs_least_without_failures(cells: list[Cell], chosen: int | None) -> None:
    assert cheapest(cells) is (None if chosen is None else cells[chosen])
