# SPDX-License-Identifier: BSD-3-Clause
"""PPO that starts from a distilled policy, behind RSL-RL's adapter, on a fake task."""

from pathlib import Path
from typing import Any

import pytest
import torch

from isaaclab_pc.agents import ppo
from isaaclab_pc.agents.distill import DistillSettings, fine_tuning
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners import Runner
from isaaclab_pc.learners.common.batch import BatchPlan
from isaaclab_pc.learners.common.checkpoint_file import load_checkpoint
from isaaclab_pc.learners.rsl_rl import cfg as rsl_rl_cfg
from tests.unit.learners.bench import make_runner, train
from tests.unit.learners.fake_env import FakeEnv

NUM_ENVS = 16
PLAN = BatchPlan(horizon=8, num_minibatches=2, minibatch_size=64)
STUDENT = DistillSettings(
    hidden=(32,),
    action_std=0.05,
    encoder=ppo.EncoderSettings(point_channels=(16, 32), depth_channels=(4,), depth_latent=8),
)
CRITIC_ITERATIONS = 2


def build(folder: Path, cfg: Any, init: Path | None = None) -> Runner:
    return make_runner("rsl_rl", cfg, FakeEnv(NUM_ENVS, "points"), folder, plan=PLAN, init=init)


def finetune_cfg(student: DistillSettings = STUDENT) -> Any:
    cfg: Any = rsl_rl_cfg.make_finetune_cfg(fine_tuning(ppo.REACH, student), "x")
    cfg.algorithm.critic_iterations = CRITIC_ITERATIONS
    return cfg


def weights(runner: Runner, folder: Path, network: str) -> dict[str, torch.Tensor]:
    """Return what a checkpoint holds of a network, the statistics of the observations included."""
    path = folder / "now.pt"
    runner.save(path, {})
    state, _ = load_checkpoint(path, "cpu")
    return state["algorithm"][f"{network}_state_dict"]


def algorithm(runner: Any) -> Any:
    return runner._library.alg


def critic_rate(runner: Runner) -> float:
    return algorithm(runner).optimizer.param_groups[1]["lr"]


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    names = [name for name in one if not name.startswith("distribution.")]
    return all(torch.equal(one[name], other[name]) for name in names)


@pytest.fixture
def student(tmp_path: Path) -> Path:
    """A policy as distillation leaves it."""
    path = tmp_path / "student.pt"
    runner = build(tmp_path / "student", rsl_rl_cfg.make_distill_cfg(STUDENT, "x"))
    policy = algorithm(runner).get_policy()
    policy.update_normalization(FakeEnv(NUM_ENVS, "points").observe())
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    runner.save(path, {})
    return path


def test_the_actor_stays_what_it_was_until_the_critic_has_learned(student: Path, tmp_path: Path) -> None:
    state, _ = load_checkpoint(student, "cpu")
    learned = state["algorithm"]["student_state_dict"]
    runner = build(tmp_path, finetune_cfg(), student)
    critic = weights(runner, tmp_path, "critic")

    calls = train(runner, CRITIC_ITERATIONS)
    assert same(weights(runner, tmp_path, "actor"), learned)
    assert not same(weights(runner, tmp_path, "critic"), critic)
    assert critic_rate(runner) == 1e-3
    assert calls[-1]["action_std"] == pytest.approx(STUDENT.action_std)

    calls = train(runner, CRITIC_ITERATIONS + 3)
    assert not same(weights(runner, tmp_path, "actor"), learned)
    # The adaptive schedule begins at 1e-5 and goes by factors of 1.5.
    assert calls[0]["learning_rate"] < 1e-3
    assert critic_rate(runner) == 1e-3


def test_a_first_update_that_is_skipped_leaves_the_policy_as_it_was_loaded(student: Path, tmp_path: Path) -> None:
    state, _ = load_checkpoint(student, "cpu")
    runner = build(tmp_path, finetune_cfg(), student)
    algorithm(runner).value_loss_coef = float("nan")
    (metrics,) = train(runner, 1)
    assert metrics["Learner/skipped_updates"] == metrics["Learner/updates"]
    assert same(weights(runner, tmp_path, "actor"), state["algorithm"]["student_state_dict"])


def drift(folder: Path, student: Path, reference_coef: float) -> float:
    """Return how far a few updates of the actor lead its actions away from the student's."""
    cfg = finetune_cfg()
    cfg.algorithm.reference_coef = reference_coef
    runner = build(folder, cfg, student)
    obs = FakeEnv(NUM_ENVS, "points").observe()
    train(runner, CRITIC_ITERATIONS)
    first = runner.act(obs)
    train(runner, CRITIC_ITERATIONS + 5)
    return float((runner.act(obs) - first).square().mean().sqrt())


def test_the_first_policy_holds_the_actor_by_its_weight(student: Path, tmp_path: Path) -> None:
    assert drift(tmp_path / "held", student, 100.0) < 0.5 * drift(tmp_path / "free", student, 0.0)


def test_the_weight_of_the_first_policy_falls_and_a_resume_keeps_that_and_its_own_actor(
    student: Path, tmp_path: Path
) -> None:
    cfg = finetune_cfg()
    cfg.algorithm.reference_coef = 2.0
    cfg.algorithm.reference_iterations = 4
    runner = build(tmp_path / "a", cfg, student)
    seen = []
    losses = []
    for completed in range(1, CRITIC_ITERATIONS + 6):
        seen.append(algorithm(runner).reference_coef)
        (metrics,) = train(runner, completed)
        losses.append(metrics["loss/reference"])
    assert losses[:CRITIC_ITERATIONS] == pytest.approx([0.0] * CRITIC_ITERATIONS, abs=1e-6)
    assert min(losses[CRITIC_ITERATIONS:]) > 1e-6
    assert seen == [2.0] * (CRITIC_ITERATIONS + 1) + [1.5, 1.0, 0.5, 0.0]
    first = weights(runner, tmp_path / "a", "reference")
    assert same(first, load_checkpoint(student, "cpu")[0]["algorithm"]["student_state_dict"])

    before = weights(runner, tmp_path / "a", "actor")
    student.unlink()
    resumed = build(tmp_path / "b", cfg, student)
    resumed.load(tmp_path / "a" / "now.pt")
    assert same(weights(resumed, tmp_path / "b", "actor"), before)
    train(resumed, CRITIC_ITERATIONS + 6)
    assert same(weights(resumed, tmp_path / "b", "reference"), first)
    assert not same(weights(resumed, tmp_path / "b", "actor"), before)


def test_a_policy_with_another_network_is_refused_by_its_first_layer(student: Path, tmp_path: Path) -> None:
    runner = build(tmp_path, finetune_cfg(DistillSettings(hidden=(8,), encoder=STUDENT.encoder)), student)
    with pytest.raises(ConfigError, match=r"student\.pt.* actor\.mlp\.0\.bias"):
        train(runner, 1)
