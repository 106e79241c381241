# SPDX-License-Identifier: BSD-3-Clause
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from isaaclab_pc.run.evaluation import Evaluation
from isaaclab_pc.workers.evaluation import evaluate, evaluate_in_between
from tests.unit.workers.fake_env import FakeEnv


def _act(observations):
    return observations["policy"]


def _evaluated(env, episodes, seed=0) -> Any:
    result = evaluate(env, _act, episodes=episodes, seed=seed)
    assert result is not None
    return result


def test_short_episodes_count_no_more_often_than_long_ones():
    env = FakeEnv([1, 10], succeeds=[True, False])
    result = _evaluated(env, episodes=10, seed=3)
    assert (result.episodes, result.success_rate) == (10, 0.5)
    assert result.mean_return == pytest.approx((1 + 10) / 2)
    assert result.mean_time_to_success_s == pytest.approx(0.1)
    assert result.breakdown == ()
    assert result.breakdown_table() == ""
    assert env.seeds == [3]
    assert not env.step_in_episode.is_inference(), "a training that goes on writes to it"


def test_every_step_tells_how_far_it_has_come():
    steps = []
    evaluate(FakeEnv([2, 3, 4]), _act, episodes=6, seed=0, on_step=lambda *step: steps.append(step))
    assert steps == [(number, 8) for number in range(1, 9)]


def test_success_once_counts_what_was_fulfilled_and_lost_again():
    # Rounded up to a round of all environments.
    result = _evaluated(FakeEnv([2, 3, 4, 5], [True, False, False, False], loses=[1]), episodes=3)
    assert result.episodes == 4
    assert (result.success.rate, result.success_once.rate) == (0.25, 0.5)
    # The episodes that lost it again have no time to their success.
    assert result.mean_time_to_success_s == pytest.approx(0.2)


def test_without_a_success_no_time_is_invented():
    result = _evaluated(FakeEnv([2, 3], succeeds=[False, False]), episodes=2)
    assert (result.success_rate, result.mean_time_to_success_s) == (0.0, None)


def test_shares_come_with_wilson_score_intervals():
    result = _evaluated(FakeEnv([2] * 10, [True] * 10), episodes=10)
    # z**2 / (n + z**2) for no failure in n episodes, with z = 1.96.
    assert result.success.lower == pytest.approx(1 - 3.8415 / 13.8415, abs=1e-4)
    assert result.success.upper == 1.0
    assert str(result).count("[72.2, 100.0]") == 2


def test_a_return_that_is_not_finite_is_none_and_survives_as_json():
    env = FakeEnv([1])
    env.reward = float("nan")
    result = _evaluated(env, episodes=1)
    assert result.mean_return is None
    assert Evaluation.from_json(result.to_json()) == result


def test_a_task_without_success_gets_none():
    result = _evaluated(FakeEnv([2]), episodes=2)
    assert (result.success, result.success_rate, result.mean_return) == (None, None, 2.0)
    assert "%" not in str(result)


def test_it_stops_when_asked():
    assert evaluate(FakeEnv([1000]), _act, episodes=1, seed=0, stopped=lambda: True) is None


class RandomizedEnv(FakeEnv):
    """Episodes of one step, whose one factor is 0, 1, ... in turn: those with a factor below 2 succeed."""

    def reset(self, seed=None):
        self.x = torch.zeros(self.num_envs)
        return super().reset(seed)

    def randomized_factors(self):
        return {"cube_x": self.x, "same": torch.ones(self.num_envs)}

    def step(self, actions):
        self.succeeds = self.x < 2.0
        self._fulfils = self.succeeds
        result = super().step(actions)
        # Reset in the step: this is the next episode's.
        self.x += 1.0
        return result


def test_success_is_broken_down_by_the_factors_of_the_episodes_that_ended():
    result = _evaluated(RandomizedEnv([1, 1], [True, True]), episodes=12)
    (part,) = result.breakdown
    assert part.factor == "cube_x"
    # The values 0 to 5, twice each.
    assert [third.episodes for third in part.thirds] == [4, 4, 4]
    assert [third.success.rate for third in part.thirds] == [1.0, 0.0, 0.0]
    assert (part.thirds[0].lower, part.thirds[1].lower, part.thirds[2].upper) == pytest.approx((0.0, 5 / 3, 5.0))
    row = "cube_x 0.000 to 5.000 100 % of 4 0 % of 4 0 % of 4"
    assert result.breakdown_table().splitlines()[-1].split() == row.split()
    assert Evaluation.from_json(result.to_json()) == result


def test_a_third_without_an_episode_has_no_rate():
    env = RandomizedEnv([1, 1], [True, True])
    env.randomized_factors = lambda: {"x": torch.tensor([0.0, 1.0])}
    result = _evaluated(env, episodes=2)
    assert result.breakdown[0].thirds[1].success is None
    assert " - of 0" in result.breakdown_table()


class TrainedEnv(FakeEnv):
    """As Isaac Lab's environments: a seeded reset seeds the whole process, and what was logged stays."""

    def __init__(self):
        super().__init__([2, 3])
        self.common_step_counter = 7
        self.extras = {}

    def reset(self, seed=None):
        if seed is not None:
            torch.manual_seed(seed)
        self.start = torch.rand(1)
        self.extras["log"] = {"reward": 1.0}
        return super().reset(seed)

    def step(self, actions):
        self.common_step_counter += 1
        torch.rand(1)
        return super().step(actions)


@pytest.mark.parametrize("stopped", [False, True])
def test_training_goes_on_from_a_reset_as_if_there_had_been_no_evaluation(stopped):
    torch.manual_seed(1)
    expected = torch.rand(1)

    torch.manual_seed(1)
    env = TrainedEnv()
    result = evaluate_in_between(env, _act, episodes=4, seed=5, stopped=lambda: stopped)
    assert (result is None) == stopped
    assert env.seeds == [5, None]
    # The exploration would repeat itself after every evaluation, and the next iteration count what this one logged.
    assert torch.equal(env.start, expected)
    assert "log" not in env.extras
    assert env.common_step_counter == 7


def test_an_environment_that_can_set_training_aside_is_asked_to():
    class Env(TrainedEnv):
        aside = False

        @contextmanager
        def training_set_aside(self):
            self.aside = True
            yield
            self.aside = False
            self.seeds.append("own")

        def step(self, actions):
            assert self.aside
            return super().step(actions)

    env = Env()
    assert evaluate_in_between(env, _act, episodes=4, seed=5) is not None
    assert env.seeds == [5, "own"]
