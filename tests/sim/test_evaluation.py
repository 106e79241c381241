# SPDX-License-Identifier: BSD-3-Clause
"""An evaluation in the middle of a training, with every library, on the real reach task."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from isaaclab_pc.agents import ppo, rl_games_cfg, rsl_rl_cfg, sb3_cfg, skrl_cfg
from isaaclab_pc.runners import RUNNERS, Decision, load_adapter
from isaaclab_pc.scaling import plan_batch
from isaaclab_pc.workers.evaluation import evaluate, evaluate_in_between

pytestmark = pytest.mark.sim

TASK = "IsaacPC-Reach-Franka-Direct"
NUM_ENVS = 4
SETTINGS = replace(ppo.REACH, samples_per_update=64, num_minibatches=2, num_epochs=2)
CONFIGS = {
    "rsl_rl": (rsl_rl_cfg.make_cfg, SETTINGS),
    "rl_games": (rl_games_cfg.make_cfg, SETTINGS),
    "skrl": (skrl_cfg.make_cfg, SETTINGS),
    "sb3": (sb3_cfg.make_cfg, SETTINGS),
}


@pytest.fixture(scope="module")
def env(make_env: Callable) -> Any:
    def adjust(cfg) -> None:
        cfg.obs = "state"
        cfg.episode_length_s = 0.5

    return make_env(TASK, NUM_ENVS, adjust)


def stand_still(observations: Mapping[str, torch.Tensor]) -> torch.Tensor:
    return torch.zeros(NUM_ENVS, 3)


@pytest.mark.slow_on_newton
@pytest.mark.parametrize("name", RUNNERS)
def test_training_goes_on_with_its_own_draws_after_an_evaluation(name: str, env: Any, tmp_path: Path) -> None:
    make_cfg, settings = CONFIGS[name]
    cfg: Any = make_cfg(settings, "reach")
    adapter = load_adapter(name)
    plan = plan_batch(NUM_ENVS, *adapter.batch_target(cfg))
    adapter.configure(cfg, obs="state", seed=7, max_iterations=None, device="cpu", plan=plan, experiment="reach")
    env.reset(seed=11)
    runner = adapter.make(env, cfg, tmp_path, "cpu")

    calls: list[dict[str, float]] = []

    def on_iteration(completed: int, metrics: Mapping[str, float]) -> Decision:
        calls.append(dict(metrics))
        return Decision.STOP if completed == 2 else Decision.CONTINUE

    runner.train(4, on_iteration)
    before = env.episode_index.clone()
    steps = env.common_step_counter
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
    again = evaluate_in_between(env, runner.act, 8, seed=5)
    assert again == first
    runner.train(4, on_iteration)
    assert len(calls) == 4
    assert all(math.isfinite(metrics["loss/value"]) for metrics in calls)


def test_success_by_where_the_target_was_is_that_of_the_episodes_that_ended(env: Any) -> None:
    targets = []

    def follow(observations: Mapping[str, torch.Tensor]) -> torch.Tensor:
        # The first step of an episode is the only one at which no action was taken.
        if int(env.episode_length_buf.max()) == 0:
            targets.append(env.target_pos[:, 0].clone())
        return stand_still(observations)

    result = evaluate(env, follow, 3 * NUM_ENVS, seed=3)
    assert result is not None
    x = torch.cat(targets[:3])
    (part,) = (part for part in result.breakdown if part.factor == "target_x")
    assert part.thirds[0].lower == pytest.approx(float(x.min()))
    assert part.thirds[2].upper == pytest.approx(float(x.max()))
    third = (float(x.max()) - float(x.min())) / 3.0
    assert part.thirds[0].episodes == int((x < x.min() + third).sum())
