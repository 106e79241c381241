# SPDX-License-Identifier: BSD-3-Clause
import pytest
import torch

from isaaclab_pc.workers.evaluation import evaluate


class FakeEnv:
    """Environment i has episodes of ``lengths[i]`` steps; all of them succeed, or none, as ``succeeds[i]`` says."""

    device = "cpu"

    def __init__(self, lengths, succeeds=None):
        self.lengths = torch.tensor(lengths)
        self.num_envs = len(lengths)
        self.unwrapped = self
        self.seeds = []
        if succeeds is not None:
            self._succeeds = torch.tensor(succeeds)
            self.episode_success = torch.zeros(self.num_envs, dtype=torch.bool)
            self.episode_time_to_success = torch.full((self.num_envs,), float("nan"))

    def reset(self, seed=None):
        self.seeds.append(seed)
        self.step_in_episode = torch.zeros(self.num_envs, dtype=torch.long)
        return {"policy": torch.zeros(self.num_envs, 1)}, {}

    def step(self, actions):
        assert actions.shape == (self.num_envs, 1)
        self.step_in_episode += 1
        done = self.step_in_episode >= self.lengths
        if hasattr(self, "_succeeds"):
            self.episode_success = torch.where(done, self._succeeds, self.episode_success)
            time = torch.where(self._succeeds, 0.1 * self.lengths, torch.nan)
            self.episode_time_to_success = torch.where(done, time, self.episode_time_to_success)
        self.step_in_episode[done] = 0
        observations = {"policy": torch.zeros(self.num_envs, 1)}
        return observations, torch.ones(self.num_envs), done, torch.zeros_like(done), {}


def _act(observations):
    return observations["policy"]


def test_short_episodes_count_no_more_often_than_long_ones():
    env = FakeEnv([1, 10], succeeds=[True, False])
    result = evaluate(env, _act, episodes=10, seed=3)
    assert result is not None
    assert result.episodes == 10
    assert result.success_rate == 0.5
    assert result.mean_return == pytest.approx((1 + 10) / 2)
    assert result.mean_time_to_success_s == pytest.approx(0.1)
    assert env.seeds == [3]


def test_episodes_are_rounded_up_to_whole_rounds_of_all_environments():
    result = evaluate(FakeEnv([2, 3, 4]), _act, episodes=7, seed=0)
    assert result is not None
    assert result.episodes == 9


def test_without_a_success_no_time_is_invented():
    result = evaluate(FakeEnv([2, 3], succeeds=[False, False]), _act, episodes=2, seed=0)
    assert result is not None
    assert result.success_rate == 0.0
    assert result.mean_time_to_success_s is None
    assert "0.0 %" in str(result)


def test_a_task_without_success_gets_none_and_says_so():
    result = evaluate(FakeEnv([2]), _act, episodes=2, seed=0)
    assert result is not None
    assert result.success_rate is None
    assert result.to_dict()["mean_return"] == 2.0
    assert "not defined" in str(result)


def test_it_stops_when_asked():
    assert evaluate(FakeEnv([1000]), _act, episodes=1, seed=0, stopped=lambda: True) is None
