# SPDX-License-Identifier: BSD-3-Clause
"""Distillation on the real reach task: from the expert, through a checkpoint, to a policy that sees only the cloud."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from isaaclab_pc.agents import ppo
from isaaclab_pc.agents.distill import DistillSettings, ImitationCfg, fine_tuning
from isaaclab_pc.learners import Decision, LearnerOptions, Runner, load_adapter
from isaaclab_pc.learners.common.batch import plan_batch
from isaaclab_pc.learners.rsl_rl.cfg import make_distill_cfg, make_finetune_cfg

pytestmark = [pytest.mark.sim, pytest.mark.slow_on_newton]

NUM_ENVS = 32
SETTINGS = DistillSettings(
    max_iterations=10,
    samples_per_update=1024,
    algorithm=ImitationCfg(replay_samples=12_000, refill_samples=2048, expert_share_samples=4096, learning_rate=2e-3),
)


@pytest.fixture(scope="module")
def env(make_env: Callable) -> Any:
    return make_env("IsaacPC-Reach-Franka-Direct", NUM_ENVS)


@pytest.fixture(scope="module")
def student(env: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """A student after 8 iterations: its checkpoint, and its success."""
    updates = []

    def on_iteration(completed: int, metrics: Mapping[str, float]) -> Decision:
        updates.append(metrics["Learner/updates"])
        return Decision.CONTINUE

    folder = tmp_path_factory.mktemp("student")
    torch.manual_seed(7)
    runner = build(env, folder)
    assert success(env, runner) < 0.2
    runner.train(8, on_iteration)
    assert updates == [20.0] * 8
    runner.save(folder / "8.pt", {})
    return folder / "8.pt", success(env, runner)


def build(env: Any, folder: Path, init: Path | None = None) -> Runner:
    goes_on = replace(fine_tuning(ppo.REACH, SETTINGS), samples_per_update=1024)
    cfg: Any = make_distill_cfg(SETTINGS, "reach") if init is None else make_finetune_cfg(goes_on, "reach")
    adapter = load_adapter("rsl_rl")
    plan = plan_batch(NUM_ENVS, *adapter.batch_target(cfg))
    options = LearnerOptions(obs="points", seed=7, device="cpu", plan=plan, init=init)
    adapter.configure(cfg, options)
    return adapter.make(env, cfg, folder, "cpu")


def success(env: Any, runner: Runner) -> float:
    """Return the share of one episode of every environment that succeeds."""
    obs, _ = env.reset(seed=1000)
    while True:
        obs, _, terminated, truncated, _ = env.step(runner.act(obs))
        if (terminated | truncated).all():
            return float(env.episode_success.float().mean())


def test_reach_is_distilled_and_resumed(env: Any, student: tuple[Path, float], tmp_path: Path) -> None:
    checkpoint, learned = student
    assert learned >= 0.9
    updates = []

    def on_iteration(completed: int, metrics: Mapping[str, float]) -> Decision:
        updates.append(metrics["Learner/updates"])
        return Decision.CONTINUE

    resumed = build(env, tmp_path)
    resumed.load(checkpoint)
    assert success(env, resumed) == learned
    resumed.train(10, on_iteration)
    assert success(env, resumed) >= 0.9
    # Of the two iterations that are left, none is spent on the replay alone.
    assert updates == [20.0, 20.0]


@pytest.mark.slow
def test_ppo_goes_on_from_a_student_and_loses_nothing(
    env: Any, backend: str, student: tuple[Path, float], tmp_path: Path
) -> None:
    if backend != "ovphysx":
        pytest.skip("takes minutes on Newton")
    checkpoint, learned = student
    assert learned >= 0.9
    torch.manual_seed(7)
    rewards = []

    def on_iteration(completed: int, metrics: Mapping[str, float]) -> Decision:
        rewards.append(metrics["mean_reward"])
        return Decision.CONTINUE

    runner = build(env, tmp_path, checkpoint)
    runner.train(15, on_iteration)
    after = success(env, runner)
    print(f"success {learned:.2f} -> {after:.2f}, rewards {rewards}")
    assert after >= learned - 2 / NUM_ENVS
