# SPDX-License-Identifier: BSD-3-Clause
"""Where Stable-Baselines3 is made to mean what RSL-RL means by a hyperparameter, and to hold no more than it must."""

import copy
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from isaaclab_pc.learners.batch import BatchPlan
from tests.unit.runners.exports import check_exports
from tests.unit.runners.fake_env import ACTIONS, NUM_POINTS, FakeEnv, FakeGymEnv
from torch import nn

from isaaclab_pc import learners as runners
from isaaclab_pc.agents import ppo
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners import Decision
from isaaclab_pc.learners.sb3 import adapter as sb3
from isaaclab_pc.learners.sb3 import agent as sb3_agent
from isaaclab_pc.learners.sb3 import cfg as sb3_cfg
from isaaclab_pc.tensor_bytes import tensor_bytes

HORIZON, NUM_ENVS = 8, 4
PLAN = BatchPlan(horizon=HORIZON, num_minibatches=2, minibatch_size=16)


def build(folder: Path, env: FakeEnv | None = None, **agent: Any) -> sb3.Sb3Runner:
    cfg = sb3_cfg.make_cfg(ppo.REACH, "x")
    sb3.ADAPTER.configure(cfg, obs="points", seed=1, max_iterations=2, device="cpu", plan=PLAN, experiment="x")
    cfg.update(agent)
    return sb3.Sb3Runner(FakeGymEnv(env or FakeEnv(NUM_ENVS)), cfg, folder, "cpu")


def go_on(completed: int, metrics: Any) -> Decision:
    return Decision.CONTINUE


def test_clouds_stay_float16(tmp_path: Path) -> None:
    runner = build(tmp_path)
    runner.train(1, go_on)
    rollout: Any = runner.holders()["rollout storage"]
    assert {name: rollout[name].dtype for name in ("policy", "points", "critic")} == {
        "policy": torch.float32,
        "points": torch.float16,
        "critic": torch.float32,
    }
    samples = HORIZON * NUM_ENVS
    assert rollout["points"].nbytes == samples * NUM_POINTS * 3 * 2
    others = (2 + 5 + ACTIONS) * 4 + 6 * 4  # vectors and six numbers
    assert tensor_bytes(rollout) == samples * (NUM_POINTS * 3 * 2 + others)


def test_an_update_copies_no_rollout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent: Any = build(tmp_path)._agent
    collected: dict[str, np.ndarray] = {}
    train = agent.train

    def watched() -> None:
        collected.update(agent.rollout_buffer.observations)
        train()

    monkeypatch.setattr(agent, "train", watched)
    agent.run(0, 1, lambda: Decision.CONTINUE)
    assert set(collected) == {"policy", "points", "critic"}
    assert all(np.shares_memory(agent.rollout_buffer.observations[name], array) for name, array in collected.items())


def test_minibatches_keep_a_sample_together(tmp_path: Path) -> None:
    agent: Any = build(tmp_path)._agent
    agent.run(0, 1, lambda: Decision.CONTINUE)
    expected = {}
    for batch in agent.rollout_buffer.get(16):
        for critic, action in zip(batch.observations["critic"], batch.actions, strict=True):
            expected[tuple(critic.tolist())] = tuple(action.tolist())
    assert len(expected) == HORIZON * NUM_ENVS
    for _ in range(2):
        for batch in agent.rollout_buffer.get(16):
            for critic, action in zip(batch.observations["critic"], batch.actions, strict=True):
                assert expected[tuple(critic.tolist())] == tuple(action.tolist())


def test_advantages_are_normalized_over_the_whole_rollout(tmp_path: Path) -> None:
    runner = build(tmp_path)
    runner.train(1, go_on)
    rollout: Any = runner.holders()["rollout storage"]
    assert float(rollout["advantages"].mean()) == pytest.approx(0.0, abs=1e-6)
    assert float(rollout["advantages"].std(correction=0)) == pytest.approx(1.0, rel=1e-4)
    raw = rollout["returns"] - rollout["values"]
    torch.testing.assert_close(rollout["advantages"], (raw - raw.mean()) / raw.std(correction=0))


@pytest.mark.parametrize("is_finite_horizon", [False, True])
def test_an_episode_that_ran_out_of_time_goes_on_with_the_value_of_its_last_observation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_finite_horizon: bool
) -> None:
    env = FakeEnv(NUM_ENVS)
    env.cfg = SimpleNamespace(is_finite_horizon=is_finite_horizon)
    runner = build(tmp_path, env)
    given: list[torch.Tensor] = []
    late: list[torch.Tensor] = []
    step = FakeGymEnv.step

    def watched(self: FakeGymEnv, actions: torch.Tensor) -> Any:
        obs, reward, _, truncated, extras = step(self, actions)
        # Of those that end, the first one failed.
        failed = truncated & (torch.arange(NUM_ENVS) == 0)
        given.append(reward.clone())
        late.append(truncated & ~failed)
        return obs, reward, failed, truncated & ~failed, extras

    monkeypatch.setattr(FakeGymEnv, "step", watched)
    runner.train(1, go_on)
    rollout: Any = runner.holders()["rollout storage"]
    ran_out = torch.cat(late)
    assert 0 < ran_out.sum() < HORIZON * NUM_ENVS
    rest = 0.0 if is_finite_horizon else ppo.REACH.gamma * rollout["values"][:, 0] * ran_out
    torch.testing.assert_close(rollout["rewards"].flatten(), torch.cat(given) + rest)


def test_a_large_gradient_of_the_critic_leaves_the_actor_alone(tmp_path: Path) -> None:
    policy: Any = build(tmp_path)._agent.policy
    actor, critic = policy.network.clipping_groups()
    assert len(actor) + len(critic) == len(list(policy.parameters()))
    for parameters, value in ((actor, 1e-6), (critic, 1e3)):
        for parameter in parameters:
            parameter.grad = torch.full_like(parameter, value)
    policy.optimizer.step()
    assert all(torch.equal(p.grad, torch.full_like(p, 1e-6)) for p in actor)
    norm = nn.utils.get_total_norm([p.grad for p in critic])
    assert float(norm) == pytest.approx(ppo.REACH.max_grad_norm, rel=1e-3)


def test_the_learning_rate_follows_the_divergence_of_each_epoch(tmp_path: Path) -> None:
    agent: Any = build(tmp_path)._agent
    for divergence, factor in ((0.001, 1.5), (0.01, 1.0), (0.05, 1 / 1.5), (float("nan"), 1.0)):
        before = agent.present_learning_rate
        agent._adapt_learning_rate(divergence, 0.01)
        assert agent.present_learning_rate == pytest.approx(before * factor)
    for _ in range(20):
        agent._adapt_learning_rate(0.05, 0.01)
    assert agent.present_learning_rate == 1e-5

    rising: Any = build(tmp_path, desired_kl=1e9)._agent
    rising.run(0, 1, lambda: Decision.CONTINUE)
    assert rising.present_learning_rate == pytest.approx(min(1e-2, ppo.REACH.learning_rate * 1.5**5))


def test_the_critic_reads_the_state_and_the_actor_the_cloud(tmp_path: Path) -> None:
    policy: Any = build(tmp_path)._agent.policy
    obs = FakeEnv(NUM_ENVS).observe()
    for group in obs:
        changed = {**obs, group: obs[group] + 1}
        reads_it = not torch.equal(policy.predict_values(changed), policy.predict_values(obs))
        assert reads_it == (group == "critic")
        acts_on_it = not np.array_equal(_act(policy, changed), _act(policy, obs))
        assert acts_on_it == (group != "critic")


def _act(policy: Any, obs: dict[str, torch.Tensor]) -> np.ndarray:
    return policy.predict({name: value.numpy() for name, value in obs.items()}, deterministic=True)[0]


def test_playing_leaves_no_files(tmp_path: Path) -> None:
    runner = build(tmp_path)
    obs = FakeEnv().observe()
    assert torch.equal(runner.act(obs), runner.act(obs))
    assert not list(tmp_path.iterdir())


def test_actions_are_clipped_where_they_act_and_where_they_are_played(tmp_path: Path) -> None:
    env = FakeEnv(NUM_ENVS)
    runner = build(tmp_path, env)
    network: Any = runner._agent.network
    with torch.no_grad():
        network.actor[-1].bias.fill_(5.0)
    assert torch.equal(runner.act(env.observe()), torch.ones(NUM_ENVS, ACTIONS))
    taken: list[torch.Tensor] = []
    step = env.step
    env.step = lambda actions: (taken.append(actions.clone()), step(actions))[1]  # type: ignore[method-assign]
    runner.train(1, go_on)
    assert float(torch.cat(taken).max()) == 1.0
    rollout: Any = runner.holders()["rollout storage"]
    assert float(rollout["actions"].max()) > 3.0


@pytest.fixture
def stock_cfg() -> dict[str, Any]:
    """The agent of Isaac Lab's own cart-pole, with a policy of Stable-Baselines3."""
    text = files("isaaclab_tasks.core.cartpole.agents").joinpath("sb3_ppo_cfg.yaml").read_text()
    return yaml.safe_load(text)


@pytest.mark.filterwarnings("ignore:constant_fn")
def test_a_task_of_another_package_trains_and_resumes_with_a_policy_of_the_library(
    stock_cfg: dict[str, Any], tmp_path: Path
) -> None:
    assert sb3.ADAPTER.batch_target(stock_cfg) == (16 * 4096, 4096)
    assert sb3.ADAPTER.max_iterations(stock_cfg) == 15
    stock_cfg["learning_rate"] = "lin_3e-4"
    sb3.ADAPTER.configure(stock_cfg, obs=None, seed=1, max_iterations=4, device="cpu", plan=PLAN, experiment="x")
    assert sb3.ADAPTER.max_iterations(stock_cfg) == 4
    rates: list[float] = []

    def on_iteration(completed: int, metrics: Any) -> Decision:
        rates.append(metrics["learning_rate"])
        return Decision.STOP if completed == 2 else Decision.CONTINUE

    both = []
    for name in ("a", "b"):
        env = FakeGymEnv(FakeEnv(NUM_ENVS, "state"))
        both.append(sb3.Sb3Runner(env, copy.deepcopy(stock_cfg), tmp_path / name, "cpu"))
    trained, resumed = both
    trained.train(4, on_iteration)
    trained.save(tmp_path / "2.pt", {})
    resumed.load(tmp_path / "2.pt")
    obs = FakeEnv(NUM_ENVS, "state").observe()
    assert torch.equal(resumed.act(obs), trained.act(obs))
    resumed.train(4, on_iteration)
    assert resumed.completed_iterations == 4
    # Falls in a line over the whole run, wherever it was interrupted.
    assert rates == pytest.approx([3e-4 * (1 - completed / 4) for completed in range(1, 5)])


@pytest.mark.filterwarnings("ignore:constant_fn")
def test_a_policy_of_the_library_is_exported(stock_cfg: dict[str, Any], tmp_path: Path) -> None:
    sb3.ADAPTER.configure(stock_cfg, obs=None, seed=1, max_iterations=4, device="cpu", plan=PLAN, experiment="x")

    def make(env: FakeEnv, folder: Path) -> sb3.Sb3Runner:
        return sb3.Sb3Runner(FakeGymEnv(env), stock_cfg, folder, "cpu")

    check_exports(make, NUM_ENVS, tmp_path)


def test_normalizers_outside_of_the_networks_are_refused_with_the_next_step(stock_cfg: dict[str, Any]) -> None:
    stock_cfg["normalize_input"] = True
    with pytest.raises(ConfigError, match=r"normalize_input.*set agent\.normalize_input=false, or give runner=rsl_rl"):
        sb3.ADAPTER.batch_target(stock_cfg)
    stock_cfg["normalize_input"] = False
    assert sb3.ADAPTER.batch_target(stock_cfg) == (16 * 4096, 4096)


@pytest.mark.filterwarnings("ignore:constant_fn")
def test_updates_that_end_early_are_refused_in_several_processes(
    stock_cfg: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sb3_agent, "world_size", lambda: 2)
    sb3.ADAPTER.configure(stock_cfg, obs=None, seed=1, max_iterations=4, device="cpu", plan=PLAN, experiment="x")
    env = FakeGymEnv(FakeEnv(NUM_ENVS, "state"))
    with pytest.raises(ConfigError, match=r"agent\.target_kl .*: set gpus=1\."):
        sb3.Sb3Runner(env, {**stock_cfg, "target_kl": 0.01}, tmp_path, "cpu")


def test_where_it_is_not_installed_the_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runners, "is_installed", lambda module: module != "stable_baselines3")
    with pytest.raises(ConfigError, match=r'runner=sb3 is not installed: pip install "isaaclab_pc\[sb3\]", or use'):
        runners.require_library("sb3")
