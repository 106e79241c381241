# SPDX-License-Identifier: BSD-3-Clause
"""An evaluation in the middle of a training of Isaac Lab's own tasks; a process holds one environment at a time."""

from collections.abc import Callable

import pytest
import torch

from isaaclab_pc.workers.evaluation import evaluate_in_between

pytestmark = pytest.mark.sim

NUM_ENVS = 4


def test_a_task_of_another_package_can_be_evaluated_in_the_middle_of_a_training(make_cartpole: Callable) -> None:
    cartpole = make_cartpole(NUM_ENVS)
    base = cartpole.unwrapped
    cartpole.reset(seed=11)
    push = torch.ones(NUM_ENVS, 1)
    cartpole.step(push)
    generator = torch.get_rng_state()
    result = evaluate_in_between(cartpole, lambda observations: push, 2 * NUM_ENVS, seed=5)
    assert result is not None
    assert (result.episodes, result.success, result.breakdown) == (2 * NUM_ENVS, None, ())
    assert result.mean_return is not None

    assert base.common_step_counter == 1
    assert (base.episode_length_buf == 0).all()
    assert "log" not in base.extras
    torch.set_rng_state(generator)
    expected = cartpole.reset()[0]["policy"]
    torch.testing.assert_close(base.obs_buf["policy"], expected)
    cartpole.step(push)
