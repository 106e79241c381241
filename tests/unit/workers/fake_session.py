# SPDX-License-Identifier: BSD-3-Clause
"""An environment and a runner without a simulator, for the workers around them."""

import json
from types import SimpleNamespace

import torch

from isaaclab_pc.agents.networks import ObservationEncoder
from isaaclab_pc.agents.ppo import EncoderSettings
from isaaclab_pc.learners import Decision
from tests.unit.workers.fake_env import FakeEnv

SETTINGS = ("num_envs=4", "max_iterations=5", "eval.episodes=8")
"""Of a run in these tests."""

METRICS = {"mean_reward": 1.0, "success_rate": 0.5, "collect_s": 0.5, "learn_s": 1.5, "Perf/total_fps": 128.0}


class SessionEnv(FakeEnv):
    """Four environments with episodes of three steps that all succeed, and what a worker asks of them besides."""

    def __init__(self):
        super().__init__([3] * 4, [True] * 4)
        self.cfg = SimpleNamespace(sim=SimpleNamespace(physics=None))
        self.single_action_space = SimpleNamespace(shape=(1,))
        self.single_observation_space = SimpleNamespace(spaces={})
        self.scene = SimpleNamespace(sensors={})
        self.closed = False
        self.common_step_counter = 0
        self.extras = {}
        self.guard = SimpleNamespace(
            counts={"action": torch.tensor(2)},
            env_counts=torch.zeros(4, dtype=torch.long),
            benched=torch.zeros(4, dtype=torch.bool),
        )

    def step(self, actions):
        self.common_step_counter += 1
        return super().step(actions)

    def _pre_physics_step(self, actions):
        pass

    def _get_dones(self):
        pass

    def close(self):
        pass


class FakeEncoder(ObservationEncoder):
    """Encodes nothing, 48 samples at once."""

    def __init__(self):
        super().__init__({}, EncoderSettings())

    def samples_at_once(self):
        return 48


class FakeRunner:
    """Iterates as adapters do; ``during`` is called within each iteration."""

    def __init__(self, during=None):
        self.completed_iterations = 0
        self.loaded = None
        self.trainings = 0
        self._during = during or (lambda completed: None)

    def train(self, max_iterations, on_iteration):
        self.trainings += self.completed_iterations < max_iterations
        while self.completed_iterations < max_iterations:
            self.completed_iterations += 1
            self._during(self.completed_iterations)
            if on_iteration(self.completed_iterations, METRICS) is Decision.STOP:
                return

    def start_new_episodes(self):
        pass

    def save(self, path, extra):
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(extra), encoding="utf-8")

    def load(self, path, expected=None):
        self.loaded = (path, expected)
        self.completed_iterations = 2
        return {}

    def load_policy(self, path, expected=None):
        self.loaded = (path, expected)
        return {}

    def policy(self):
        policy = torch.nn.Module()
        policy.encoder = FakeEncoder()
        return policy

    def act(self, obs):
        return obs["policy"]

    def holders(self):
        return {"rollout storage": torch.zeros(64, 4), "network weights": torch.zeros(10), "optimizer": {}}


USAGE = {
    "num_envs": 4,
    "contacts": {"used": 10, "capacity": 40, "overflowed": False},
    "constraints": {"used": 80, "capacity": 50, "overflowed": True},
    "share": 1.6,
}
"""A solver whose constraints do not fit its buffer."""
