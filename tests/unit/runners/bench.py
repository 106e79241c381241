# SPDX-License-Identifier: BSD-3-Clause
"""One learning library with a fake environment, as the tests of all libraries use it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from isaaclab_pc.learners.batch import BatchPlan
from tests.unit.runners.fake_env import NUM_POINTS, FakeEnv, FakeGymEnv, FakeRlGamesEnv

from isaaclab_pc.agents import ppo, rsl_rl_cfg
from isaaclab_pc.learners import (
    Decision,
    Runner,
    load_adapter,
)
from isaaclab_pc.learners.rl_games import cfg as rl_games_cfg
from isaaclab_pc.learners.sb3 import cfg as sb3_cfg
from isaaclab_pc.learners.skrl import cfg as skrl_cfg

NUM_ENVS = 4
SETTINGS = replace(
    ppo.REACH,
    max_iterations=9,
    horizon=8,
    samples_per_update=64,
    num_minibatches=2,
    num_epochs=2,
    learning_rate=3e-3,
    actor_hidden=(16,),
    critic_hidden=(16,),
    encoder=ppo.EncoderSettings(point_channels=(8, 16), depth_channels=(4,), depth_latent=8),
)
CONFIGS: dict[str, Callable] = {
    "rsl_rl": rsl_rl_cfg.make_cfg,
    "rl_games": rl_games_cfg.make_cfg,
    "skrl": skrl_cfg.make_cfg,
    "sb3": sb3_cfg.make_cfg,
}
ENVS: dict[str, Callable] = {
    "rsl_rl": lambda env: env,
    "rl_games": FakeRlGamesEnv,
    "skrl": FakeGymEnv,
    "sb3": FakeGymEnv,
}
PLAN = BatchPlan(horizon=8, num_minibatches=2, minibatch_size=16)


class Bench:
    """One library with a fake environment."""

    def __init__(
        self,
        name: str,
        folder: Path,
        obs: str = "points",
        num_points: int = NUM_POINTS,
        history_length: int = 1,
        **settings: Any,
    ) -> None:
        self.name = name
        self.folder = folder
        self.cfg = CONFIGS[name](replace(SETTINGS, **settings), "x")
        adapter = load_adapter(name)
        adapter.configure(self.cfg, obs=obs, seed=3, max_iterations=None, device="cpu", plan=PLAN, experiment="fake")
        self.env = FakeEnv(NUM_ENVS, obs, num_points, history_length)
        torch.manual_seed(3)
        # Stable-Baselines3 shuffles minibatches with it; one order in eight leaves the tiny depth network dead.
        np.random.seed(3)
        self.runner: Runner = adapter.make(ENVS[name](self.env), self.cfg, folder, "cpu")

    def train(self, until: int, stop_at: int | None = None) -> list[tuple[int, dict[str, float]]]:
        calls = []

        def on_iteration(completed: int, metrics: Mapping[str, float]) -> Decision:
            calls.append((completed, dict(metrics)))
            return Decision.STOP if completed == stop_at else Decision.CONTINUE

        self.env.reset()
        self.runner.train(until, on_iteration)
        return calls

    def act(self) -> torch.Tensor:
        return self.runner.act(self.env.observe())
