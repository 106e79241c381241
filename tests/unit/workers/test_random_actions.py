# SPDX-License-Identifier: BSD-3-Clause
"""The random actions of the stability measurement, and those that disturb an expert."""

import pytest
import torch

from isaaclab_pc.workers.random_actions import HOLD_STEPS, RandomActions

N, STEPS = 64, 400


@pytest.fixture(scope="module")
def actions() -> torch.Tensor:
    draw = RandomActions(N, 4, "cpu", seed=3)
    return torch.stack([draw() for _ in range(STEPS)])


def test_half_of_them_are_at_the_corners_and_none_beyond(actions: torch.Tensor) -> None:
    assert actions.abs().max() == 1.0
    assert (actions.abs() == 1.0).all(dim=2).float().mean() == pytest.approx(0.5, abs=0.05)


def test_the_others_cover_the_whole_range(actions: torch.Tensor) -> None:
    uniform = actions[actions.abs() < 1.0]
    assert torch.histc(uniform, 10, -1.0, 1.0).min() > 0.07 * len(uniform)


def test_an_environment_keeps_an_action_for_a_while_on_its_own(actions: torch.Tensor) -> None:
    changes = (actions[1:] != actions[:-1]).any(dim=2).float()
    assert changes.mean() == pytest.approx(1.0 / HOLD_STEPS, rel=0.1)
    assert changes.mean(dim=1).max() < 0.5, "not all at once"


def test_a_seed_gives_the_same_actions_again(actions: torch.Tensor) -> None:
    again = RandomActions(N, 4, "cpu", seed=3)
    assert torch.equal(torch.stack([again() for _ in range(5)]), actions[:5])


@pytest.mark.parametrize(("share", "hold_steps"), [(0.1, 4), (0.5, HOLD_STEPS)])
def test_actions_for_a_share_of_the_time_come_in_bursts(share: float, hold_steps: int) -> None:
    draw = RandomActions(N, 4, "cpu", seed=3, hold_steps=hold_steps, share=share)
    actions = torch.stack([draw() for _ in range(STEPS)])
    is_none = actions.isnan().any(dim=2)
    assert torch.equal(is_none, actions.isnan().all(dim=2))
    assert (~is_none).float().mean() == pytest.approx(share, rel=0.15)
    # A burst ends where one of its actions is followed by none.
    ends = (~is_none[:-1] & is_none[1:]).sum()
    assert (~is_none).sum() / ends == pytest.approx(hold_steps / (1.0 - share), rel=0.2)
