# SPDX-License-Identifier: BSD-3-Clause
"""Detection and counting of bad values."""

import pytest
import torch

from isaaclab_pc.guards import Guard, GuardCfg
from isaaclab_pc.guards.guard import within

BAD = [float("nan"), float("inf"), float("-inf"), 1e30, -1e4]


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("shape", [(4,), (4, 3), (4, 2, 3)])
def test_a_bad_value_marks_its_environment_alone(value: float, shape: tuple[int, ...]) -> None:
    tensor = torch.zeros(shape)
    tensor[2] = value
    assert within(tensor, 1000.0).tolist() == [True, True, False, True]


def test_denormals_and_the_bound_itself_pass() -> None:
    assert within(torch.tensor([[1e-45], [1000.0], [-1000.0]]), 1000.0).all()


def test_an_environment_counts_once_per_step_under_its_first_cause() -> None:
    guard = Guard(GuardCfg(), 3, "cpu")
    bad = torch.tensor([[0.0], [float("nan")], [0.0]])
    guard.begin_step()
    guard.check("action", bad)
    guard.check("state", bad, bad)
    assert guard.faulted.tolist() == [False, True, False]
    assert {cause: int(count) for cause, count in guard.counts.items()} == {
        "action": 1,
        "state": 0,
        "reward": 0,
        "observation": 0,
    }
    guard.begin_step()
    assert not guard.faulted.any()
    guard.check("state", bad)
    assert int(guard.counts["state"]) == 1


def test_disabled_finds_nothing() -> None:
    guard = Guard(GuardCfg(mode="disabled"), 2, "cpu")
    assert not guard.check("state", torch.full((2, 1), float("nan"))).any()
    assert not guard.faulted.any()
    assert int(guard.counts["state"]) == 0
