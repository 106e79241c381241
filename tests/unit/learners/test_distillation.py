# SPDX-License-Identifier: BSD-3-Clause
import math

import pytest
import torch

from isaaclab_pc.agents.distill import ImitationCfg
from isaaclab_pc.learners.rsl_rl.distillation import Shortening, decay, imitation_loss


def test_the_learning_rate_stays_then_falls_along_half_a_cosine_to_a_twentieth() -> None:
    for constant_share in (0.0, 2.0 / 3.0):
        rates = [decay(iteration / 120, constant_share) for iteration in range(150)]
        constant = round(120 * constant_share)
        assert rates[: constant + 1] == [1.0] * (constant + 1)
        assert rates[(constant + 120) // 2] == pytest.approx((1.0 + 0.05) / 2)
        assert rates[120:] == pytest.approx([0.05] * 30)
        assert rates == sorted(rates, reverse=True)
    assert decay(1.2, 1.0) == 1.0


def loss_and_gradient(mean: float, label: float, gain: float | None = None) -> tuple[float, float]:
    """Return loss and gradient of the last of three actions; the others are right."""
    means = torch.tensor([[0.2, -0.3, mean]], requires_grad=True)
    loss = imitation_loss(means, torch.tensor([[0.2, -0.3, label]]), ImitationCfg(), gain).sum()
    loss.backward()
    assert means.grad is not None
    assert means.grad[0, :2].tolist() == [0.0, 0.0]
    return float(loss.detach()), float(means.grad[0, 2])


def test_a_mean_beyond_a_bound_counts_as_the_bound_and_is_led_back() -> None:
    assert loss_and_gradient(1.7, 1.0) == (0.0, 0.0)
    assert loss_and_gradient(-1.7, -1.0) == (0.0, 0.0)
    assert loss_and_gradient(1.7, 0.4)[0] == loss_and_gradient(1.0, 0.4)[0] > 0.0
    assert all(loss_and_gradient(1.7, label)[1] > 0.0 for label in (-1.0, 0.4))


@pytest.mark.parametrize("gain", [None, 4.0])
def test_errors_of_long_motions_count_less_and_the_loss_stays_as_large(gain: float | None) -> None:
    # A motion of length 1, one of 0.5, and none, all with the same error; with a gripper, that is the last number.
    labels = torch.tensor([[0.6, 0.8, 0.0], [0.0, 0.5, 0.0], [0.0, 0.0, 0.0]])
    if gain is not None:
        labels = torch.cat([labels, torch.ones(3, 1)], dim=1)

    def motion_loss_and_gradient(discount: float) -> tuple[float, torch.Tensor]:
        means = (labels + torch.tensor([-0.3, 0.0, 0.0, 0.0])[: labels.shape[1]]).requires_grad_()
        loss = imitation_loss(means, labels, ImitationCfg(long_motion_discount=discount), gain)[0]
        loss.backward()
        assert means.grad is not None
        return float(loss.detach()), means.grad[:, 0]

    alike, equal = motion_loss_and_gradient(0.0)
    relative, gradient = motion_loss_and_gradient(10.0)
    assert relative == pytest.approx(alike)
    torch.testing.assert_close(equal, equal[:1].expand(3))
    torch.testing.assert_close(gradient / gradient[2], torch.tensor([1 / 11, 1 / 6, 1.0]))
    assert float(gradient.sum()) == pytest.approx(float(equal.sum()))


class Finishing:
    """Environments of which the first is fulfilled from the start, the second every other step, the third never."""

    num_envs = 3
    device = "cpu"
    max_episode_length = 100

    def __init__(self) -> None:
        self.episode_length_buf = torch.zeros(3, dtype=torch.long)

    def is_fulfilled(self) -> torch.Tensor:
        step = int(self.episode_length_buf[2])
        return torch.tensor([True, step % 2 == 0, False])


def test_an_episode_ends_once_its_task_was_fulfilled_long_enough() -> None:
    env = Finishing()
    shortening = Shortening(env, 4)
    ends: dict[int, list[int]] = {0: [], 1: [], 2: []}
    with torch.inference_mode():
        for step in range(1, 13):
            env.episode_length_buf += 1
            dones = env.episode_length_buf >= env.max_episode_length
            env.episode_length_buf[dones] = 0
            for index in dones.nonzero()[:, 0].tolist():
                ends[index].append(step)
            shortening.after_step(dones)
    # The step after the fourth in which it was fulfilled is the last one; then the count begins anew.
    assert ends == {0: [5, 10], 1: [9], 2: []}

    # Two steps after its last end, the first environment is in its third.
    shortening.forget()
    for _ in range(3):
        shortening.after_step(torch.zeros(3, dtype=torch.bool))
    assert int(env.episode_length_buf[0]) < env.max_episode_length - 1


def test_the_gripper_is_told_apart_and_not_averaged() -> None:
    wrong, towards_closed = loss_and_gradient(0.8, -1.0, 4.0)
    right, towards_open = loss_and_gradient(0.8, 1.0, 4.0)
    assert wrong == pytest.approx(math.log1p(math.exp(3.2)))
    assert right == pytest.approx(math.log1p(math.exp(-3.2)))
    assert towards_closed > 0.0 > towards_open
