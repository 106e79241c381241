# SPDX-License-Identifier: BSD-3-Clause
"""One learning library with a fake environment, as the tests of all libraries use it."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

from isaaclab_pc.agents import ppo
from isaaclab_pc.learners import Decision, LearnerOptions, Runner, load_adapter
from isaaclab_pc.learners.common.batch import BatchPlan
from isaaclab_pc.learners.rl_games import cfg as rl_games_cfg
from isaaclab_pc.learners.rsl_rl import cfg as rsl_rl_cfg
from isaaclab_pc.learners.sb3 import cfg as sb3_cfg
from isaaclab_pc.learners.skrl import cfg as skrl_cfg
from tests.unit.learners.fake_env import NUM_POINTS, FakeEnv, FakeGymEnv

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
PLAN = BatchPlan(horizon=8, num_minibatches=2, minibatch_size=16)


def go_on(completed: int, metrics: Mapping[str, float]) -> Decision:
    return Decision.CONTINUE


def make_runner(name: str, cfg: Any, env: Any, folder: Path, **options: Any) -> Runner:
    """Configure a library as a run does, and build its runner around a fake task, or an environment in its own form."""
    adapter = load_adapter(name)
    settings = {"obs": "points", "seed": 3, "device": "cpu", "plan": PLAN, **options}
    adapter.configure(cfg, LearnerOptions(**settings))
    torch.manual_seed(3)
    # Stable-Baselines3 shuffles minibatches with it; one order in eight leaves the tiny depth network dead.
    np.random.seed(3)
    # RSL-RL's wrapper has nothing to do for an environment that is in its own form.
    gym_env = FakeGymEnv(env) if type(env) is FakeEnv and name != "rsl_rl" else env
    with wrapping_fakes():
        return adapter.make(gym_env, cfg, folder, "cpu")


@contextmanager
def wrapping_fakes() -> Iterator[None]:
    """Let Isaac Lab's wrappers take environments that are not its own."""
    with ExitStack() as stack:
        for module in ("rl_games.rl_games", "rsl_rl.vecenv_wrapper", "sb3"):
            # RL-Games' wrapper can be imported only once our adapter was.
            if f"isaaclab_rl.{module}" in sys.modules:
                stack.enter_context(mock.patch(f"isaaclab_rl.{module}.check_env_type"))
        yield


def train(runner: Runner, until: int) -> list[dict[str, float]]:
    """Train, and return the metrics of each iteration."""
    metrics: list[dict[str, float]] = []
    runner.train(until, lambda completed, measured: metrics.append(dict(measured)) or Decision.CONTINUE)
    return metrics


def flat(value: Any, prefix: str = "") -> dict[str, torch.Tensor]:
    """Name every tensor in nested dicts."""
    if isinstance(value, torch.Tensor):
        return {prefix: value}
    if not isinstance(value, Mapping):
        return {}
    return {name: tensor for key, part in value.items() for name, tensor in flat(part, f"{prefix}.{key}").items()}


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
        self.env = FakeEnv(NUM_ENVS, obs, num_points, history_length)
        self.runner = make_runner(name, CONFIGS[name](replace(SETTINGS, **settings), "x"), self.env, folder, obs=obs)

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


def check_exports(make: Callable[[FakeEnv, Path], Runner], folder: Path) -> None:
    """Check that the files of a policy of vectors act as its runner does, after training, saving and loading."""
    exported_policy = pytest.importorskip("isaaclab_pc.export.exported_policy")
    env = FakeEnv(NUM_ENVS, "state")
    trained, played = (make(env, folder / name) for name in ("trained", "played"))
    trained.train(1, go_on)
    trained.save(folder / "1.pt", {})
    played.load_policy(folder / "1.pt")
    obs = env.observe()
    actions = played.act(obs)

    policy = exported_policy.PlainPolicy(played.policy(), obs)
    inputs = policy.inputs(obs)
    assert set(inputs) == {"policy"}
    policy.write_torchscript(folder / "policy.pt", inputs)
    exported_policy.compare(exported_policy.load_torchscript(folder / "policy.pt"), inputs, actions)
    policy.write_onnx(folder / "policy.onnx", inputs)
    exported_policy.compare(exported_policy.load_onnx(folder / "policy.onnx"), inputs, actions)
