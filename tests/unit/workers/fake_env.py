# SPDX-License-Identifier: BSD-3-Clause
"""An environment whose episodes have lengths and ends that a test chooses."""

import torch


class FakeEnv:
    """Environment i has episodes of ``lengths[i]`` steps; all of them succeed, or none, as ``succeeds[i]`` says.

    Those of the environments in ``loses`` fulfil the task and lose it again.
    """

    device = "cpu"
    reward = 1.0

    def __init__(self, lengths, succeeds=None, loses=()):
        self.lengths = torch.tensor(lengths)
        self.max_episode_length = max(lengths)
        self.num_envs = len(lengths)
        self.unwrapped = self
        self.seeds = []
        if succeeds is not None:
            self.succeeds = torch.tensor(succeeds)
            self._fulfils = self.succeeds.clone()
            self._fulfils[list(loses)] = True
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
        if hasattr(self, "succeeds"):
            self.episode_success = torch.where(done, self.succeeds, self.episode_success)
            time = torch.where(self._fulfils, 0.1 * self.lengths, torch.nan)
            self.episode_time_to_success = torch.where(done, time, self.episode_time_to_success)
        self.step_in_episode[done] = 0
        observations = {"policy": torch.zeros(self.num_envs, 1)}
        return observations, torch.full((self.num_envs,), self.reward), done, torch.zeros_like(done), {}
