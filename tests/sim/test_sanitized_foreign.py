# SPDX-License-Identifier: BSD-3-Clause
"""Mode sanitize on Isaac Lab's cart-pole, direct and manager-based: what it repairs does not fail a step later."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from isaaclab_pc.guards import GuardCfg, attach_guard

pytestmark = pytest.mark.sim

NUM_ENVS, SICK = 3, 1
BAD_VALUES = [float("inf"), -float("inf"), 1e30, float("nan")]


@pytest.fixture(scope="module")
def env(make_cartpole: Callable) -> Any:
    made = make_cartpole(NUM_ENVS)
    attach_guard(made, GuardCfg(mode="sanitize", max_abs=1e6), made.spec.id)
    return made


def step(env: Any, value: float = 0.0) -> int:
    """Step, with another action in one environment; return how many faults were found."""
    guard = env.unwrapped.guard
    before = int(guard.env_counts.sum())
    actions = torch.zeros(NUM_ENVS, 1)
    actions[SICK] = value
    observation, reward, terminated, *_ = env.step(actions)
    assert observation["policy"].isfinite().all()
    assert reward.isfinite().all()
    assert not terminated.any()
    return int(guard.env_counts.sum()) - before


@pytest.mark.parametrize("value", BAD_VALUES)
def test_a_bad_action_is_no_fault_of_the_steps_that_follow(env: Any, value: float) -> None:
    env.reset(seed=2)
    assert [step(env, value), *(step(env) for _ in range(5))] == [1, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("value", BAD_VALUES)
def test_a_bad_velocity_is_none_either(env: Any, value: float) -> None:
    env.reset(seed=2)
    cart = next(iter(env.unwrapped.scene.articulations.values()))
    velocity = torch.full((1, cart.num_joints), value)
    cart.write_joint_velocity_to_sim_index(velocity=velocity, env_ids=torch.tensor([SICK], dtype=torch.int32))
    assert [step(env), *(step(env) for _ in range(5))] == [1, 0, 0, 0, 0, 0]
