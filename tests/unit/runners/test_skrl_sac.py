# SPDX-License-Identifier: BSD-3-Clause
"""SAC with skrl: what its replay holds and gives, and what a checkpoint brings back."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributions import Normal, TransformedDistribution
from torch.distributions.transforms import TanhTransform

from isaaclab_pc.agents import sac, skrl_cfg
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.runners import Decision, skrl
from isaaclab_pc.runners.skrl_sac import ReplayMemory
from isaaclab_pc.scaling import BatchPlan
from isaaclab_pc.tensor_bytes import tensor_bytes
from tests.unit.runners.fake_env import ACTIONS, NUM_POINTS, FakeEnv, FakeGymEnv

HORIZON, NUM_ENVS = 8, 4
SAMPLES = HORIZON * NUM_ENVS
PLAN = BatchPlan(horizon=HORIZON, num_minibatches=2, minibatch_size=16)
SETTINGS = replace(sac.REACH, num_epochs=2, replay_samples=3 * SAMPLES + 3, refill_samples=2 * SAMPLES)


def build(folder: Path, obs: str = "points", replay_samples: int | None = None, **agent: Any) -> skrl.SkrlRunner:
    cfg = skrl_cfg.make_sac_cfg(SETTINGS, "x")
    configure = {"obs": obs, "seed": 1, "max_iterations": 2, "device": "cpu", "plan": PLAN, "experiment": "x"}
    skrl.ADAPTER.configure(cfg, replay_samples=replay_samples, **configure)  # type: ignore[arg-type]
    cfg["agent"].update(agent)
    return skrl.SkrlRunner(FakeGymEnv(FakeEnv(NUM_ENVS, obs)), cfg, folder, "cpu")


class Bench:
    """A runner and its environment, for processes that train together."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runner = build(folder)
        self.env: Any = self.runner._env.unwrapped


def metrics_of(runner: skrl.SkrlRunner, iterations: int) -> list[dict[str, float]]:
    measured: list[dict[str, float]] = []

    def go_on(completed: int, metrics: Any) -> Decision:
        measured.append(dict(metrics))
        return Decision.CONTINUE

    runner.train(iterations, go_on)
    return measured


@pytest.mark.parametrize(
    ("obs", "observation_bytes"),
    [("state", 4 * 5), ("points", 4 * 2 + 2 * 3 * NUM_POINTS), ("depth", 4 * 2 + 2 * 16 * 16)],
)
def test_a_sample_is_held_once_and_its_cloud_or_image_as_float16(
    tmp_path: Path, obs: str, observation_bytes: int
) -> None:
    runner = build(tmp_path, obs)
    assert "rollout storage" not in runner.holders()
    metrics_of(runner, 1)
    flags = 2
    sample = observation_bytes + 4 * 5 + 4 * ACTIONS + 4 + flags
    assert tensor_bytes(runner.holders()["replay"]) == 3 * SAMPLES * sample


def test_the_replay_is_rounded_to_whole_steps_of_all_environments() -> None:
    cfg = skrl_cfg.make_sac_cfg(SETTINGS, "x")
    assert skrl.ADAPTER.replay_samples(cfg) == 3 * SAMPLES + 3
    configure = {"obs": "points", "seed": 1, "max_iterations": 2, "device": "cpu", "plan": PLAN, "experiment": "x"}
    skrl.ADAPTER.configure(cfg, **configure)  # type: ignore[arg-type]
    assert skrl.ADAPTER.replay_samples(cfg) == 3 * SAMPLES
    skrl.ADAPTER.configure(cfg, replay_samples=2 * SAMPLES + 1, **configure)  # type: ignore[arg-type]
    assert skrl.ADAPTER.replay_samples(cfg) == 2 * SAMPLES


def test_a_replay_that_holds_less_than_an_iteration_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="replay_samples=31 is less than the 32 samples of an iteration: give more"):
        build(tmp_path, replay_samples=31)


def fill(memory: ReplayMemory, steps: range, truncated: dict[int, int]) -> None:
    """Add steps whose numbers say which step and environment they are of."""
    if not memory.tensors:
        memory.create_tensor("observations", size=FakeGymEnv(FakeEnv(NUM_ENVS)).single_observation_space)
        memory.create_tensor("next_observations", size=FakeGymEnv(FakeEnv(NUM_ENVS)).single_observation_space)
        memory.create_tensor("rewards", size=1, dtype=torch.float32)
        memory.create_tensor("truncated", size=1, dtype=torch.bool)
    template = FakeEnv(NUM_ENVS).observe()
    for step in steps:
        numbers = 10.0 * step + torch.arange(NUM_ENVS)[:, None]
        obs = {name: numbers.view(-1, *[1] * (v.dim() - 1)).expand_as(v) for name, v in template.items()}
        ends = torch.tensor([[truncated.get(step) == env] for env in range(NUM_ENVS)])
        memory.add_samples(rewards=numbers, truncated=ends, observations=obs)


@pytest.mark.parametrize("last", [3, 5, 6, 11])
def test_the_observation_after_a_step_is_that_of_the_next_step_of_its_environment(last: int) -> None:
    memory = ReplayMemory(memory_size=5, num_envs=NUM_ENVS, device="cpu")
    fill(memory, range(last + 1), truncated={last - 1: 2})
    names = ["observations", "rewards", "next_observations"]
    (obs, rewards, following) = memory.sample(names, batch_size=2000)[0]

    drawn = rewards[:, 0].int()
    oldest = max(last - 4, 0)
    expected = {10 * step + env for step in range(oldest, last) for env in range(NUM_ENVS)}
    assert set(drawn.tolist()) == expected  # the newest step has no next one yet
    ran_out = drawn == 10 * (last - 1) + 2
    for group in ("policy", "points"):
        assert torch.equal(obs[group].flatten(1)[:, 0].float(), rewards[:, 0])
        assert torch.equal(following[group].flatten(1)[:, 0].float(), rewards[:, 0] + 10.0 * ~ran_out)
    assert following["points"].dtype is torch.float16


def test_the_newest_vectors_are_those_of_the_last_steps() -> None:
    memory = ReplayMemory(memory_size=5, num_envs=NUM_ENVS, device="cpu")
    fill(memory, range(7), {})
    newest = memory.newest_vectors("observations", 3)
    assert newest.keys() == {"policy", "critic"}
    assert sorted(set(newest["policy"][:, 0].tolist())) == [10.0 * step + env for step in (4, 5, 6) for env in range(4)]


def test_no_step_follows_the_last_one_of_a_training(tmp_path: Path) -> None:
    runner = build(tmp_path)
    metrics_of(runner, 1)
    memory: Any = runner._agent.memory
    assert not memory.tensors["truncated"][HORIZON - 1].all()
    metrics_of(runner, 2)
    assert len(memory) == 2 * SAMPLES
    assert memory.tensors["truncated"][HORIZON - 1].all()


def test_a_task_with_a_finite_horizon_is_worth_nothing_after_its_time(tmp_path: Path) -> None:
    flags = []
    for finite in (False, True):
        runner = build(tmp_path)
        runner._agent._is_finite_horizon = finite  # type: ignore[union-attr]
        metrics_of(runner, 1)
        tensors: Any = runner.holders()["replay"]
        assert tensors["truncated"][:HORIZON].any()
        flags.append(tensors["terminated"][:HORIZON])
    assert not flags[0].any()
    assert flags[1].any()


def test_actions_are_squashed_and_their_probability_is_that_of_the_squashed_ones(tmp_path: Path) -> None:
    actor: Any = build(tmp_path)._agent.policy
    obs = FakeEnv(NUM_ENVS).observe()
    actions, outputs = actor.act({"observations": obs}, role="policy")
    mean, log_std = actor(obs)
    reference = TransformedDistribution(Normal(mean, log_std.exp()), TanhTransform())
    assert actions.abs().max() < 1.0
    assert torch.allclose(outputs["log_prob"], reference.log_prob(actions).sum(-1, keepdim=True), atol=1e-3)
    assert torch.equal(actor.policy(obs), mean.tanh())


def test_it_reports_losses_and_what_the_temperature_is(tmp_path: Path) -> None:
    measured = metrics_of(build(tmp_path), 2)
    for metrics in measured:
        assert {"loss/value", "loss/policy", "Learner/entropy_coefficient"} <= metrics.keys()
        assert all(math.isfinite(metrics[name]) for name in ("loss/value", "loss/policy", "learning_rate"))
        assert metrics["learn_s"] > 0.0
        # Policy, critics and temperature each take PLAN.num_minibatches * num_epochs steps.
        assert (metrics["Learner/updates"], metrics["Learner/skipped_updates"]) == (3 * 2 * 2, 0)


def test_a_resume_brings_all_back_and_learns_once_the_replay_is_filled_again(tmp_path: Path, capsys: Any) -> None:
    trained = build(tmp_path / "a")
    metrics_of(trained, 4)
    trained.save(tmp_path / "4.pt", {})
    resumed = build(tmp_path / "b")
    resumed.load(tmp_path / "4.pt")

    assert f"the policy goes on learning after {2 * SAMPLES} samples" in capsys.readouterr().out

    own, there = resumed._agent, trained._agent
    for name, network in there.checkpoint_modules.items():
        if isinstance(network, torch.nn.Module):
            for key, value in network.state_dict().items():
                assert torch.equal(own.checkpoint_modules[name].state_dict()[key], value), (name, key)
    assert {"model", "critic_1", "target_critic_2", "temperature"} <= trained._networks().keys()

    before = resumed.act(FakeEnv(NUM_ENVS).observe())
    first, second = metrics_of(resumed, 6)
    assert "loss/value" not in first
    assert first["learn_s"] == 0.0
    assert "loss/value" in second
    assert not torch.equal(resumed.act(FakeEnv(NUM_ENVS).observe()), before)


def test_only_the_actor_is_needed_to_play(tmp_path: Path) -> None:
    trained = build(tmp_path / "a")
    metrics_of(trained, 1)
    trained.save(tmp_path / "1.pt", {})
    playing = build(tmp_path / "b")
    playing.load_policy(tmp_path / "1.pt")
    obs = FakeEnv(NUM_ENVS).observe()
    assert torch.equal(playing.act(obs), trained.act(obs))
    critic: Any = playing._agent.checkpoint_modules["critic_1"]
    assert not torch.equal(critic.layers[0].weight, trained._agent.checkpoint_modules["critic_1"].layers[0].weight)
    assert not playing.holders()["replay"]


def test_a_gradient_that_is_not_finite_changes_nothing(tmp_path: Path) -> None:
    runner = build(tmp_path)
    metrics_of(runner, 1)
    weights = {name: [p.clone() for p in network.parameters()] for name, network in _optimized(runner)}
    runner._agent.memory.tensors["rewards"].fill_(float("nan"))
    add = runner._agent.memory.add_samples
    runner._agent.memory.add_samples = lambda **step: add(**{**step, "rewards": step["rewards"] * torch.nan})  # type: ignore
    (metrics,) = metrics_of(runner, 2)
    # Those of the critics are bad; the policy's losses stay finite.
    assert metrics["Learner/skipped_updates"] == 2 * 2
    assert metrics["Learner/stopped_optimizers"] == 1, "learning has stopped, whatever the policy's steps are"
    for name, network in _optimized(runner):
        if name.startswith("critic"):
            assert all(torch.equal(*pair) for pair in zip(network.parameters(), weights[name], strict=True)), name


def test_normalizers_forget_an_observation_that_is_not_finite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path)
    metrics_of(bench.runner, 1)
    env = bench.env.fake
    observe, bad_step = env.observe, env.steps_taken + 3

    def poisoned() -> dict[str, torch.Tensor]:
        obs = observe()
        if env.steps_taken == bad_step:
            obs["policy"][0, 0] = obs["critic"][0, 0] = math.nan
        return obs

    monkeypatch.setattr(env, "observe", poisoned)
    metrics_of(bench.runner, 4)
    agent: Any = bench.runner._agent
    for network in (agent.policy, agent.critic_1):
        assert all(buffer.isfinite().all() for buffer in network.norm.buffers())
        # Those of the other iterations count.
        assert int(network.norm.seen_count) == 3 * SAMPLES
    assert bench.runner.act(observe()).isfinite().all()


def test_the_samples_of_all_ranks_refill_the_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("isaaclab_pc.runners.skrl_sac.world_size", lambda: 2)
    agent: Any = build(tmp_path)._agent
    agent.go_on_from(10 * SAMPLES)
    assert agent._needed_samples == SETTINGS.refill_samples // 2
    assert f"after {SETTINGS.refill_samples} samples" in capsys.readouterr().out


def _optimized(runner: skrl.SkrlRunner) -> list[tuple[str, torch.nn.Module]]:
    modules = runner._agent.checkpoint_modules.items()
    return [(name, part) for name, part in modules if name in ("policy", "critic_1", "critic_2")]
