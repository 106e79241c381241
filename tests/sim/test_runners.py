# SPDX-License-Identifier: BSD-3-Clause
"""Learning on the real reach task: every library trains, saves, resumes, plays, and is evaluated in between."""

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
from isaaclab_pc.workers.evaluation import evaluate, evaluate_in_between

pytestmark = [pytest.mark.sim, pytest.mark.slow_on_newton]

TASK = "IsaacPC-Reach-Franka-Direct"
NUM_ENVS = 4
SETTINGS = replace(ppo.REACH, samples_per_update=64, num_minibatches=2, num_epochs=2)


def recurrent_cfg(settings: ppo.PpoSettings, experiment: str) -> Any:
    cfg: Any = rsl_rl_cfg.make_cfg(settings, experiment)
    cfg.actor.rnn_type = "gru"
    return cfg


MAKE_CFG = {
    "rsl_rl": rsl_rl_cfg.make_cfg,
    "rl_games": rl_games_cfg.make_cfg,
    "skrl": skrl_cfg.make_cfg,
    "sb3": sb3_cfg.make_cfg,
    "recurrent": recurrent_cfg,
}
LIBRARY = {"recurrent": "rsl_rl"}
"""The library where it is not the name."""


@pytest.fixture(scope="module")
def env(make_env: Callable) -> Any:
    return make_env(TASK, NUM_ENVS, episode_length_s=0.5)


def build(name: str, env: Any, folder: Path) -> Runner:
    cfg: Any = MAKE_CFG[name](SETTINGS, "reach")
    adapter = load_adapter(LIBRARY.get(name, name))
    plan = plan_batch(NUM_ENVS, *adapter.batch_target(cfg), whole_envs=name == "recurrent")
    adapter.configure(cfg, LearnerOptions(obs="points", seed=7, device="cpu", plan=plan))
    return adapter.make(env, cfg, folder, "cpu")


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


def test_training_goes_on_with_its_own_draws_after_an_evaluation(env: Any, tmp_path: Path) -> None:
    def on_iteration(completed: int, metrics: Mapping[str, float]) -> Decision:
        assert math.isfinite(metrics["loss/value"])
        return Decision.STOP if completed == 2 else Decision.CONTINUE

    env.reset(seed=11)
    runner = build("rsl_rl", env, tmp_path)
    runner.train(4, on_iteration)
    before, steps = env.episode_index.clone(), env.common_step_counter
    metrics = env.episode_tracker.metrics(1.0)
    first = evaluate_in_between(env, runner.act, 8, seed=5)
    assert first is not None
    assert (first.episodes, first.seed) == (8, 5)
    assert {part.factor for part in first.breakdown} == {"target_x", "target_y", "target_z"}

    assert env.randomizer.seed == 11
    assert env.common_step_counter == steps
    assert torch.equal(env.episode_index, before + 1), "no episode of training is repeated or left out"
    drawn = env.uniform(torch.arange(NUM_ENVS), 100, env.cfg.target_lower, env.cfg.target_upper)
    assert torch.equal(env.target_pos, drawn)
    after = env.episode_tracker.metrics(1.0)
    assert {key: float(value) for key, value in after.items()} == pytest.approx(
        {key: float(value) for key, value in metrics.items()}, nan_ok=True
    )

    # The library goes on, and the same policy on the same seed gives the same result.
    assert evaluate_in_between(env, runner.act, 8, seed=5) == first
    runner.train(4, on_iteration)
    assert runner.completed_iterations == 4


def test_success_by_where_the_target_was_is_that_of_the_episodes_that_ended(env: Any) -> None:
    targets = []

    def stand_still(observations: Mapping[str, torch.Tensor]) -> torch.Tensor:
        # The first step of an episode is the only one at which no action was taken.
        if int(env.episode_length_buf.max()) == 0:
            targets.append(env.target_pos[:, 0].clone())
        return torch.zeros(NUM_ENVS, 3)

    result = evaluate(env, stand_still, 3 * NUM_ENVS, seed=3)
    assert result is not None
    x = torch.cat(targets[:3])
    (part,) = (part for part in result.breakdown if part.factor == "target_x")
    assert part.thirds[0].lower == pytest.approx(float(x.min()))
    assert part.thirds[2].upper == pytest.approx(float(x.max()))
    third = (float(x.max()) - float(x.min())) / 3.0
    assert part.thirds[0].episodes == int((x < x.min() + third).sum())
