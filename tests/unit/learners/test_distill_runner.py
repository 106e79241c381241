# SPDX-License-Identifier: BSD-3-Clause
"""Distillation behind RSL-RL's adapter, on a fake task with a known right action."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from isaaclab_pc.agents import ppo
from isaaclab_pc.agents.distill import DistillSettings, ImitationCfg
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners import TeacherPolicy, load_adapter
from isaaclab_pc.learners.common.batch import BatchPlan
from isaaclab_pc.learners.common.checkpoint_file import load_checkpoint, save_checkpoint
from isaaclab_pc.learners.rsl_rl import cfg as rsl_rl_cfg
from isaaclab_pc.learners.rsl_rl.distillation import decay
from isaaclab_pc.tensors.tensor_bytes import tensor_bytes
from tests.unit.learners.bench import make_runner, train
from tests.unit.learners.fake_env import FakeEnv

NUM_ENVS = 16
PLAN = BatchPlan(horizon=8, num_minibatches=2, minibatch_size=64)
SETTINGS = DistillSettings(
    max_iterations=20,
    samples_per_update=128,
    algorithm=ImitationCfg(
        num_mini_batches=2,
        learning_rate=1e-2,
        replay_samples=2000,
        refill_samples=256,
        expert_share_samples=640,
    ),
    hidden=(32,),
    encoder=ppo.EncoderSettings(point_channels=(16, 32), depth_channels=(4,), depth_latent=8),
)


class TaughtEnv(FakeEnv):
    """The fake task with an expert: the centre of the cloud, or with a gripper the sign of its height."""

    def __init__(self, obs: str = "points", gripper: bool = False, history_length: int = 1) -> None:
        super().__init__(NUM_ENVS, obs, history_length=history_length)
        self.has_gripper = gripper
        self.cfg = SimpleNamespace(is_finite_horizon=False, gripper=gripper, gripper_action="binary")
        self.done_by: list[torch.Tensor] = []

    def expert(self) -> Any:
        def act() -> torch.Tensor:
            centre = 5.0 * self.observe()["critic"][:, 2:]
            if self.has_gripper:
                centre = torch.cat([centre[:, :2], centre[:, 2:].sign()], dim=1)
            return centre

        return act

    def step(self, actions: torch.Tensor) -> Any:
        self.done_by.append((actions == self.expert()()).all(dim=1))
        return super().step(actions)


class Bench:
    """An adapter's runner with the fake task."""

    def __init__(self, folder: Path, obs: str = "points", teacher: TeacherPolicy | None = None, **env: Any) -> None:
        self.cfg = rsl_rl_cfg.make_distill_cfg(SETTINGS, "x")
        self.env = TaughtEnv(obs, **env)
        options = {"obs": obs, "plan": PLAN, "replay_samples": 1000, "teacher": teacher}
        self.runner = make_runner("rsl_rl", self.cfg, self.env, folder, **options)

    def train(self, until: int) -> list[dict[str, float]]:
        self.env.reset()
        return train(self.runner, until)

    def error(self) -> float:
        """Return the mean error of the deterministic actions on states that were not trained on."""
        self.env.count = torch.arange(NUM_ENVS) * 37 + 50_000
        difference = self.runner.act(self.env.observe()) - self.env.expert()()
        return float(difference.abs().mean())


@pytest.mark.parametrize(("obs", "frames"), [("points", 1), ("points", 2), ("state", 1)])
def test_the_student_learns_what_the_expert_does(obs: str, frames: int, tmp_path: Path) -> None:
    bench = Bench(tmp_path, obs, history_length=frames)
    before = bench.error()
    calls = bench.train(20)
    assert before > 0.4
    assert bench.error() < 0.15
    assert calls[-1]["loss/motion"] < 0.1 * calls[0]["loss/motion"]
    assert calls[0]["Learner/updates"] == 5 * PLAN.num_minibatches
    assert "loss/gripper" not in calls[0]
    rates = [metrics["learning_rate"] for metrics in calls]
    assert rates == [1e-2 * decay(iteration / 20, 2.0 / 3.0) for iteration in range(20)]


def test_the_gripper_is_learned_as_open_or_closed(tmp_path: Path) -> None:
    calls = Bench(tmp_path, gripper=True).train(12)
    assert calls[-1]["loss/gripper"] < 0.5 * calls[0]["loss/gripper"]


def test_the_expert_acts_less_and_less_in_turns(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    calls = bench.train(20)
    assert [round(calls[index]["loss/expert_share"], 3) for index in (0, 1, 19)] == [0.81, 0.62, 0.05]

    by_expert = torch.stack(bench.env.done_by).float()
    assert by_expert[:2].mean() == 1.0
    assert by_expert[-60:].mean() < 0.2
    # Whoever acts goes on for a while.
    changes = (by_expert[1:] != by_expert[:-1]).float().mean()
    assert 0.0 < changes < 1.0 / SETTINGS.algorithm.turn_steps


def test_memory_is_told_by_kind(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    # Whoever only plays has no use for it.
    assert tensor_bytes(bench.runner.holders()["replay"]) == 0
    bench.train(1)
    held = {kind: tensor_bytes(holder) for kind, holder in bench.runner.holders().items()}
    assert set(held) == {"replay", "network weights", "optimizer"}
    assert held["replay"] == 1000 * (12 * 3 * 2 + 2 * 4 + 3 * 4)
    assert 1.5 * held["network weights"] < held["optimizer"] < 2.1 * held["network weights"]


def test_a_resumed_run_learns_again_once_its_replay_is_refilled(tmp_path: Path) -> None:
    first = Bench(tmp_path / "a")
    last = first.train(3)[-1]
    first.runner.save(tmp_path / "3.pt", {"task": "fake"})

    resumed = Bench(tmp_path / "b")
    header = resumed.runner.load(tmp_path / "3.pt", {"task": "fake"})
    assert (header["algorithm"], header["iteration"]) == ("distill", 3)
    assert resumed.error() == first.error()

    calls = resumed.train(8)
    assert calls[0]["loss/expert_share"] < last["loss/expert_share"]
    # 256 samples are two iterations of 128.
    assert [metrics["Learner/updates"] for metrics in calls] == [0.0, 20.0, 10.0, 10.0, 10.0]
    assert "loss/motion" not in calls[0]
    assert resumed.error() < first.error()


@pytest.mark.parametrize("interruptions", [(17,), (18,), (19,), (16, 17, 19)])
def test_a_run_has_as_many_updates_and_teachers_turns_however_late_it_is_interrupted(
    tmp_path: Path, interruptions: tuple[int]
) -> None:
    bench = Bench(tmp_path / "a")
    calls = bench.train(interruptions[0])
    for start, end in pairwise([*interruptions, SETTINGS.max_iterations]):
        bench.runner.save(tmp_path / f"{start}.pt", {"task": "fake"})
        bench = Bench(tmp_path / str(start))
        bench.runner.load(tmp_path / f"{start}.pt", {"task": "fake"})
        calls += bench.train(end)
        # The teacher's share is 0.05 by then.
        assert torch.stack(bench.env.done_by[:4]).float().mean() < 0.3
    assert sum(metrics["Learner/updates"] for metrics in calls) == 10 * SETTINGS.max_iterations


def test_a_policy_needs_its_weights_alone(tmp_path: Path) -> None:
    trained = Bench(tmp_path / "a")
    trained.train(3)
    trained.runner.save(tmp_path / "3.pt", {"task": "fake"})
    state, header = load_checkpoint(tmp_path / "3.pt", "cpu")
    weights = state["algorithm"]["student_state_dict"]
    save_checkpoint(tmp_path / "policy.pt", {"algorithm": {"student_state_dict": weights}}, header)

    played = Bench(tmp_path / "b")
    assert played.runner.load_policy(tmp_path / "policy.pt", {"task": "fake"})["iteration"] == 3
    assert played.error() == trained.error()
    with pytest.raises(ConfigError, match=r"task=fake.*task=other"):
        played.runner.load_policy(tmp_path / "policy.pt", {"task": "other"})


def test_a_checkpoint_of_ppo_is_refused(tmp_path: Path) -> None:
    cfg = rsl_rl_cfg.make_cfg(replace(ppo.REACH, actor_hidden=(32,)), "x")
    make_runner("rsl_rl", cfg, TaughtEnv(), tmp_path, plan=PLAN).save(tmp_path / "ppo.pt", {})
    with pytest.raises(ConfigError, match=r"algorithm=ppo.*algorithm=distill|observations="):
        Bench(tmp_path).runner.load(tmp_path / "ppo.pt")


def test_a_policy_that_sees_the_state_teaches(tmp_path: Path) -> None:
    state = Bench(tmp_path / "state", "state")
    state.train(20)
    state.runner.save(tmp_path / "state.pt", {})

    student = Bench(tmp_path / "points", teacher=TeacherPolicy(tmp_path / "state.pt", state.cfg))
    student.train(10)
    # Its run may go on meanwhile, and keeps its newest checkpoints only.
    (tmp_path / "state.pt").unlink()
    student.train(20)
    assert student.error() < 0.2
    student.runner.save(tmp_path / "points.pt", {})

    # Whoever plays it has no teacher.
    alone = Bench(tmp_path / "play")
    alone.runner.load(tmp_path / "points.pt")
    assert alone.error() == student.error()


def test_a_teacher_with_other_networks_is_refused(tmp_path: Path) -> None:
    state = Bench(tmp_path / "state", "state")
    state.runner.save(tmp_path / "state.pt", {})
    state.cfg.student.hidden_dims = [8]
    student = Bench(tmp_path / "points", teacher=TeacherPolicy(tmp_path / "state.pt", state.cfg))
    with pytest.raises(ConfigError, match=r"state\.pt.* teacher\."):
        student.train(1)


def test_what_a_benched_environment_observes_is_not_learned_from(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    benched = torch.arange(NUM_ENVS) == 3
    bench.env.guard = SimpleNamespace(benched=benched)  # type: ignore[attr-defined]
    bench.runner = load_adapter("rsl_rl").make(bench.env, bench.cfg, tmp_path, "cpu")
    observe = bench.env.observe

    def observed() -> dict[str, torch.Tensor]:
        return {
            name: value.masked_fill(benched.view(-1, *[1] * (value.dim() - 1)), 0) for name, value in observe().items()
        }

    bench.env.observe = observed  # type: ignore[method-assign]
    bench.train(1)
    replay: Any = bench.runner.holders()["replay"]
    samples = NUM_ENVS * PLAN.horizon
    assert len(replay) == samples
    kept = replay.newest(samples, ["policy", "points"])
    assert kept["points"].flatten(1).any(dim=1).all()
    rows = kept["policy"].view(PLAN.horizon, NUM_ENVS, -1)
    assert torch.equal(rows[:, 3], rows[:, 0]), "the first one that shows something stands in its place"
    assert not torch.equal(rows[:, 2], rows[:, 0])


def test_a_state_without_a_right_action_teaches_nothing_that_is_not_finite(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    right = bench.env.expert()

    def broken() -> Any:
        return lambda: torch.where(torch.arange(NUM_ENVS)[:, None] == 3, torch.nan, right())

    bench.env.expert = broken
    calls = bench.train(3)
    assert calls[-1]["Learner/skipped_updates"] == 0.0
    assert torch.isfinite(torch.tensor(calls[-1]["loss/motion"]))
