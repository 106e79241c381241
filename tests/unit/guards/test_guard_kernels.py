# SPDX-License-Identifier: BSD-3-Clause
"""A check finds the same whatever the number of threads that share an environment's numbers."""

import math

import pytest
import torch
import warp as wp
from hypothesis import given
from hypothesis import strategies as st

from isaaclab_pc.guards import Guard, GuardCfg, kernels
from isaaclab_pc.guards.causes import Cause
from isaaclab_pc.guards.guard import _MOST_LANE_BITS

NUMBERS = st.sampled_from([0.0, -1.0, 1.0, 3.0, -3.0, math.nan, math.inf, -math.inf])
devices = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])


@st.composite
def tables(draw: st.DrawFn) -> list[list[float]]:
    width = draw(st.integers(1, 40))
    return draw(st.lists(st.lists(NUMBERS, min_size=width, max_size=width), min_size=1, max_size=4))


def found_by(lane_bits: int, values: torch.Tensor, repairs: bool) -> list[torch.Tensor]:
    """Return all that a check writes."""
    num_envs = len(values)
    guard = Guard(GuardCfg(), num_envs, str(values.device))
    bad = torch.zeros(num_envs, dtype=torch.bool, device=values.device)
    checked = values.clone()
    wp.launch(
        kernels.CHECK_VALUES[wp.float32],
        dim=num_envs << lane_bits,
        inputs=[
            *(wp.from_torch(checked), -2.0, 2.0, math.inf, repairs, int(Cause.DEPTH), lane_bits),
            *(wp.from_torch(bad), guard.findings),
        ],
        device=str(values.device),
    )
    wp.synchronize()
    return [part.cpu() for part in (checked, bad, guard.causes, guard.env_counts, guard._counts, guard._total)]


@devices
@given(rows=tables(), repairs=st.booleans())
def test_any_number_of_lanes_finds_the_same(device: str, rows: list[list[float]], repairs: bool) -> None:
    values = torch.tensor(rows, device=device)
    expected = found_by(0, values, repairs)
    wrong = ~((values.abs() <= 2) | (values == math.inf)).all(dim=1)
    assert torch.equal(expected[1], wrong.cpu())
    for lane_bits in range(1, _MOST_LANE_BITS + 1):
        found = found_by(lane_bits, values, repairs)
        assert all(torch.equal(a.nan_to_num(7.5), b.nan_to_num(7.5)) for a, b in zip(found, expected, strict=True))
