# SPDX-License-Identifier: BSD-3-Clause
"""The batch plan: exact division, and samples per update that follow the agent config."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isaaclab_pc.agents.ppo import DEFAULT, sizes
from isaaclab_pc.learners.common.batch import HORIZON, SAMPLES_SLACK, BatchPlan, most_envs, plan_batch


@pytest.mark.parametrize(
    ("num_envs", "samples", "minibatch", "plan"),
    [
        (32, 2048, 512, BatchPlan(horizon=64, num_minibatches=4, minibatch_size=512)),
        (64, 2048, 512, BatchPlan(horizon=32, num_minibatches=4, minibatch_size=512)),
        (256, 2048, 512, BatchPlan(horizon=8, num_minibatches=4, minibatch_size=512)),
        (4096, 2048, 512, BatchPlan(horizon=8, num_minibatches=64, minibatch_size=512)),
        (4, 2048, 512, BatchPlan(horizon=128, num_minibatches=1, minibatch_size=512)),
        (1, 2048, 512, BatchPlan(horizon=128, num_minibatches=1, minibatch_size=128)),
        (2, 256, 16, BatchPlan(horizon=128, num_minibatches=16, minibatch_size=16)),
        # 66 x 31 = 2046 is closest to 2048, but its divisors near 512 are 341 and 682.
        (31, 2048, 512, BatchPlan(horizon=68, num_minibatches=4, minibatch_size=527)),
        # No horizon of a prime number of environments has a sensible minibatch: the closest one is taken.
        (1009, 8192, 300, BatchPlan(horizon=8, num_minibatches=8, minibatch_size=1009)),
    ],
)
def test_horizon_follows_the_number_of_environments(
    num_envs: int, samples: int, minibatch: int, plan: BatchPlan
) -> None:
    assert plan_batch(num_envs, samples, minibatch) == plan


@pytest.mark.parametrize("size", ["default", "large"])
def test_few_environments_learn_from_as_many_samples_as_the_longest_rollout_gives(size: str) -> None:
    agent = sizes(DEFAULT)[size]
    minibatch_size = agent.samples_per_update // agent.num_minibatches
    for num_envs in range(1, 32):
        plan = plan_batch(num_envs, agent.samples_per_update, minibatch_size)
        most = min(agent.samples_per_update, 128 * num_envs)
        assert most * (1 - SAMPLES_SLACK) <= plan.samples_per_update <= agent.samples_per_update * (1 + SAMPLES_SLACK)
        assert plan.minibatch_size >= min(minibatch_size, plan.samples_per_update) / 1.5


@given(samples=st.integers(1, 200_000))
def test_up_to_the_most_environments_an_update_has_no_more_samples_than_the_agent_asks_for(samples: int) -> None:
    most = most_envs(samples)
    slack = max(samples * (1 + SAMPLES_SLACK), 8)
    assert plan_batch(most, samples, 64).samples_per_update <= slack
    assert plan_batch(most + 1, samples, 64).samples_per_update > samples


def test_the_agents_of_a_gpu_learn_from_so_many_environments_at_most() -> None:
    assert [most_envs(agent.samples_per_update) for agent in sizes(DEFAULT).values()] == [512, 4096]


@pytest.mark.parametrize("whole_envs", [False, True])
@given(num_envs=st.integers(1, 20_000), samples=st.integers(1, 200_000), minibatch=st.integers(1, 50_000))
def test_minibatches_divide_exactly_and_samples_are_as_close_as_the_bounds_allow(
    whole_envs: bool, num_envs: int, samples: int, minibatch: int
) -> None:
    plan = plan_batch(num_envs, samples, minibatch, whole_envs=whole_envs)
    assert plan.num_minibatches * plan.minibatch_size == plan.horizon * num_envs == plan.samples_per_update
    assert not whole_envs or num_envs % plan.num_minibatches == 0
    assert HORIZON[0] <= plan.horizon <= HORIZON[1]
    closest = min(abs(num_envs * steps - samples) for steps in range(HORIZON[0], HORIZON[1] + 1))
    assert abs(plan.samples_per_update - samples) <= max(closest, SAMPLES_SLACK * samples)


def test_few_environments_make_few_minibatches_of_whole_ones() -> None:
    assert plan_batch(2, 256, 16, whole_envs=True) == BatchPlan(horizon=128, num_minibatches=2, minibatch_size=128)


@given(
    num_envs=st.integers(1, 64).map(lambda n: 16 * n),
    steps=st.sampled_from([16, 24, 32, 64]),
    count=st.sampled_from([1, 2, 4, 8]),
)
def test_target_that_can_be_met_is_met(num_envs: int, steps: int, count: int) -> None:
    samples = num_envs * steps
    plan = plan_batch(num_envs, samples, samples // count)
    assert plan == BatchPlan(horizon=steps, num_minibatches=count, minibatch_size=samples // count)
