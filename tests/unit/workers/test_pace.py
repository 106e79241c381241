# SPDX-License-Identifier: BSD-3-Clause
import pytest
import torch

from isaaclab_pc.workers import pace
from isaaclab_pc.workers.pace import Pace, StepTimer
from tests.unit.workers.fake_session import FakeEnv


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test turns."""
    now = [100.0]
    monkeypatch.setattr(pace.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(pace.time, "perf_counter", lambda: now[0])
    return now


def test_the_first_iteration_counts_only_until_there_is_a_second(clock):
    left = Pace(completed=0, maximum=10)
    clock[0] += 20.0
    assert left.seconds_left(1) == 180.0
    clock[0] += 5.0
    assert left.seconds_left(2) == 40.0
    clock[0] += 7.0
    assert left.seconds_left(3) == 42.0


def test_a_resumed_run_is_timed_from_where_it_goes_on(clock):
    left = Pace(completed=90, maximum=100)
    clock[0] += 2.0
    assert left.seconds_left(91) == 18.0


def test_the_time_of_an_iteration_is_split_and_an_evaluation_counts_for_none(clock):
    env = FakeEnv()
    own_step = env.step

    def step(actions):
        clock[0] += 2.0
        return own_step(actions)

    env.step = step
    env.reset()
    timer = StepTimer.attach(env)
    env.step(torch.zeros(4, 1))
    timer.clear()
    for _ in range(3):
        env.step(torch.zeros(4, 1))
    rates = timer.rates({"collect_s": 8.0, "learn_s": 4.0, "env_steps_per_s": 2.0})
    assert rates == {"environment": 4.0, "inference": 12.0, "learning": 6.0, "total": 2.0}
    assert "environment" not in timer.rates({"collect_s": 8.0, "learn_s": 4.0, "env_steps_per_s": 2.0})
    timer.detach()
    assert env.step is step
