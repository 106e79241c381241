# SPDX-License-Identifier: BSD-3-Clause
"""Every library on the real reach task: train, save, resume and play."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from isaaclab_pc.agents import ppo
from isaaclab_pc.learners import RUNNERS, Decision, LearnerOptions, Runner, load_adapter
from isaaclab_pc.learners.common.batch import plan_batch
from isaaclab_pc.learners.rl_games import cfg as rl_games_cfg
from isaaclab_pc.learners.rsl_rl import cfg as rsl_rl_cfg
from isaaclab_pc.learners.sb3 import cfg as sb3_cfg
from isaaclab_pc.learners.skrl import cfg as skrl_cfg

pytestmark = pytest.mark.sim

TASK = "IsaacPC-Reach-Franka-Direct"
NUM_ENVS = 4
SETTINGS = replace(ppo.REACH, samples_per_update=64, num_minibatches=2, num_epochs=2)


def recurrent_cfg(settings: ppo.PpoSettings, experiment: str) -> Any:
    cfg: Any = rsl_rl_cfg.make_cfg(settings, experiment)
    cfg.actor.rnn_type = "gru"
    return cfg


CONFIGS = {
    "rsl_rl": (rsl_rl_cfg.make_cfg, SETTINGS),
    "rl_games": (rl_games_cfg.make_cfg, SETTINGS),
    "skrl": (skrl_cfg.make_cfg, SETTINGS),
    "sb3": (sb3_cfg.make_cfg, SETTINGS),
    "recurrent": (recurrent_cfg, SETTINGS),
}
LIBRARY = {"recurrent": "rsl_rl"}
"""The library where it is not the name."""


@pytest.fixture(scope="module")
def env(make_env: Callable) -> Any:
    return make_env(TASK, NUM_ENVS)


def build(name: str, env: Any, folder: Path) -> Runner:
    make_cfg, settings = CONFIGS[name]
    cfg: Any = make_cfg(settings, "reach")
    adapter = load_adapter(LIBRARY.get(name, name))
    plan = plan_batch(NUM_ENVS, *adapter.batch_target(cfg), whole_envs=name == "recurrent")
    adapter.configure(cfg, LearnerOptions(obs="points", seed=7, device="cpu", plan=plan, experiment="reach"))
    return adapter.make(env, cfg, folder, "cpu")


@pytest.mark.slow_on_newton
@pytest.mark.parametrize("name", [*RUNNERS, "recurrent"])
def test_train_save_resume_play(name: str, env: Any, tmp_path: Path) -> None:
    calls: list[tuple[int, dict[str, float]]] = []

    def on_iteration(completed: int, metrics: Mapping[str, float]) -> Decision:
        calls.append((completed, dict(metrics)))
        return Decision.CONTINUE

    torch.manual_seed(7)
    runner = build(name, env, tmp_path / "a")
    runner.train(2, on_iteration)
    runner.save(tmp_path / "2.pt", {"task": TASK})
    resumed = build(name, env, tmp_path / "b")
    assert resumed.load(tmp_path / "2.pt", {"task": TASK})["iteration"] == 2
    resumed.train(3, on_iteration)

    assert [completed for completed, _ in calls] == [1, 2, 3]
    for _, metrics in calls:
        assert metrics["Perf/env_fps"] > metrics["Perf/inference_fps"] > metrics["Perf/total_fps"] > 0.0
        assert math.isfinite(metrics["loss/value"])
        assert any(key.startswith("Guard/") for key in metrics)

    obs, _ = env.reset()
    action = resumed.act(obs)
    assert action.shape == (NUM_ENVS, env.single_action_space.shape[0])
    assert obs["points"].any()
    blind = {**obs, "points": torch.zeros_like(obs["points"])}
    assert not torch.allclose(resumed.act(blind), action)
    for _ in range(3):
        obs, reward, *_ = env.step(resumed.act(obs))
        assert torch.isfinite(reward).all()
