# SPDX-License-Identifier: BSD-3-Clause
"""The smallest runs that there are: one environment, and episodes of one step."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

pytestmark = pytest.mark.sim


@pytest.fixture(scope="module", params=[1, 3])
def env(request: pytest.FixtureRequest, make_env: Callable) -> Any:
    def adjust(cfg) -> None:
        cfg.episode_length_s = cfg.sim.dt * cfg.decimation
        cfg.history_length = 2
        cfg.compute_final_obs = True

    built = make_env("IsaacPC-Lift-Cube-Franka-Direct", request.param, adjust)
    yield built
    built.close()


def test_every_step_is_an_episode(env: Any) -> None:
    n = env.num_envs
    assert env.max_episode_length == 1
    env.reset(seed=3)
    act = env.expert()
    for episode in range(1, 4):
        assert env.episode_index.tolist() == [episode] * n
        observation, reward, terminated, truncated, extras = env.step(act())
        assert truncated.tolist() == [True] * n
        assert not terminated.any()
        assert reward.isfinite().all()
        assert not env.episode_length_buf.any()
        for group in (observation, extras["final_obs"]):
            assert all(value.shape[0] == n and value.isfinite().all() for value in group.values())
        # The frames of an episode that has just begun are all its first.
        first, last = observation["points"].unbind(1)
        assert torch.equal(first, last)
        assert float(extras["log"]["Metrics/success_rate"]) == 0.0
    assert env.episode_index.tolist() == [4] * n


def test_resets_of_one_environment_or_none_leave_the_others(env: Any) -> None:
    env.reset(seed=3)
    env._reset_idx([0])
    env._reset_idx([])
    assert env.episode_index.tolist() == [2, *[1] * (env.num_envs - 1)]
