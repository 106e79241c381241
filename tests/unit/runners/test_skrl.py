# SPDX-License-Identifier: BSD-3-Clause
"""Where skrl is made to mean what RSL-RL means by a hyperparameter, and to hold no more than it must."""

import copy
import gc
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from isaaclab_pc.learners.batch import BatchPlan
from tests.unit.runners.exports import check_exports
from tests.unit.runners.fake_env import ACTIONS, EPISODE, NUM_POINTS, FakeEnv, FakeGymEnv
from torch import nn

from isaaclab_pc.agents import ppo
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners import Decision
from isaaclab_pc.learners.skrl import adapter as skrl
from isaaclab_pc.learners.skrl import agent as skrl_agent
from isaaclab_pc.learners.skrl import cfg as skrl_cfg
from isaaclab_pc.learners.skrl.agent import GroupMemory
from isaaclab_pc.tensor_bytes import tensor_bytes

HORIZON, NUM_ENVS = 8, 4
PLAN = BatchPlan(horizon=HORIZON, num_minibatches=2, minibatch_size=16)


def build(folder: Path, obs: str = "points", **agent: Any) -> skrl.SkrlRunner:
    cfg = skrl_cfg.make_cfg(ppo.REACH, "x")
    skrl.ADAPTER.configure(cfg, obs=obs, seed=1, max_iterations=2, device="cpu", plan=PLAN, experiment="x")
    cfg["agent"].update(agent)
    return skrl.SkrlRunner(FakeGymEnv(FakeEnv(NUM_ENVS, obs)), cfg, folder, "cpu")


def go_on(completed: int, metrics: Any) -> Decision:
    return Decision.CONTINUE


def test_clouds_stay_float16(tmp_path: Path) -> None:
    runner = build(tmp_path)
    runner.train(1, go_on)
    memory: Any = runner.holders()["rollout storage"]
    assert {name: tensor.dtype for name, tensor in memory.items() if "/" in name} == {
        "observations/policy": torch.float32,
        "observations/points": torch.float16,
        "states/critic": torch.float32,
    }
    samples = HORIZON * NUM_ENVS
    assert memory["observations/points"].nbytes == samples * NUM_POINTS * 3 * 2
    others = (2 + 5 + ACTIONS) * 4 + 5 * 4 + 2  # vectors, five numbers and two flags
    assert tensor_bytes(memory) == samples * (NUM_POINTS * 3 * 2 + others)


def test_an_update_holds_the_rollout_and_one_minibatch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = build(tmp_path)
    network: Any = runner.holders()["network weights"][0].network
    compute = network.forward
    sample_bytes = NUM_POINTS * 3 * 2
    held: list[int] = []

    def held_clouds() -> int:
        """Bytes of the clouds of at least a minibatch that are in memory."""
        tensors = [value for value in gc.get_objects() if type(value) is torch.Tensor]
        storages = [tensor.untyped_storage() for tensor in tensors if tensor.dtype is torch.float16]
        sizes = {storage.data_ptr(): storage.nbytes() for storage in storages}
        return sum(size for size in sizes.values() if size >= PLAN.minibatch_size * sample_bytes)

    def watched(obs: Any) -> Any:
        if torch.is_grad_enabled():
            held.append(held_clouds() - of_other_tests)
        return compute(obs)

    gc.collect()
    of_other_tests = held_clouds()
    monkeypatch.setattr(network, "forward", watched)
    runner.train(1, go_on)
    assert set(held) == {(HORIZON * NUM_ENVS + PLAN.minibatch_size) * sample_bytes}


def test_minibatches_are_random_and_keep_a_sample_together() -> None:
    memory = GroupMemory(memory_size=2, num_envs=8, device="cpu")
    env = FakeGymEnv(FakeEnv(8))
    memory.create_tensor("observations", size=env.single_observation_space)
    memory.create_tensor("values", size=1, dtype=torch.float32)
    for step in range(2):
        numbers = torch.arange(8.0)[:, None] + 8 * step
        obs = {name: numbers.view(-1, *[1] * (v.dim() - 1)).expand_as(v) for name, v in env.fake.observe().items()}
        memory.add_samples(values=numbers, observations=obs)

    orders = []
    for _ in range(2):
        batches = list(memory.sample(["observations", "values", "none"], batch_size=16, mini_batches=4))
        for obs, values, nothing in batches:
            assert torch.equal(obs["points"][:, 0, :1].float(), values)
            assert nothing is None
        orders.append(torch.cat([values for _, values, _ in batches])[:, 0])
        assert torch.equal(orders[-1].sort().values, torch.arange(16.0))
    assert not torch.equal(*orders)


def test_an_episode_that_ran_out_of_time_goes_on_with_the_value_of_its_last_observation(tmp_path: Path) -> None:
    runner = build(tmp_path)
    runner.train(1, go_on)
    agent: Any = runner._agent
    tensors = agent.memory.tensors
    agent.memory.reset()
    states = {"critic": torch.ones(NUM_ENVS, 5)}
    observations = {name: value for name, value in FakeEnv().observe().items() if name != "critic"}
    ended = torch.tensor([[True], [False], [True], [False]])
    late = torch.tensor([[True], [False], [False], [False]])
    agent._current_values = torch.full((NUM_ENVS, 1), 10.0)
    agent.record_transition(
        observations=observations,
        states=states,
        actions=torch.zeros(NUM_ENVS, ACTIONS),
        rewards=torch.ones(NUM_ENVS, 1),
        next_observations=observations,
        next_states=states,
        terminated=ended & ~late,
        truncated=late,
        infos={},
        timestep=0,
        timesteps=1,
    )
    assert tensors["rewards"][0, :, 0].tolist() == pytest.approx([1.0 + ppo.REACH.gamma * 10.0, 1.0, 1.0, 1.0])
    assert torch.equal(tensors["terminated"][0], ended)


def set_gradients(agent: Any, actor_value: float, critic_value: float) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    actor, critic = agent.policy.clipping_groups()
    assert len(actor) + len(critic) == len(list(agent.policy.parameters()))
    for parameters, value in ((actor, actor_value), (critic, critic_value)):
        for parameter in parameters:
            parameter.grad = torch.full_like(parameter, value)
    return actor, critic


def test_a_large_gradient_of_the_critic_leaves_the_actor_alone(tmp_path: Path) -> None:
    agent: Any = build(tmp_path)._agent
    actor, critic = set_gradients(agent, 1e-6, 1e3)
    agent.scaler.step(agent.optimizer)
    assert all(torch.equal(p.grad, torch.full_like(p, 1e-6)) for p in actor if p.grad is not None)
    norm = nn.utils.get_total_norm([p.grad for p in critic if p.grad is not None])
    assert float(norm) == pytest.approx(ppo.REACH.max_grad_norm, rel=1e-3)


def test_a_resume_brings_back_the_scale_of_mixed_precision(tmp_path: Path) -> None:
    plain, trained, resumed, begun = (
        build(tmp_path / name, mixed_precision=name != "plain") for name in ("plain", "trained", "resumed", "begun")
    )
    scaler: Any = trained._agent.scaler
    scaler.load_state_dict({**scaler.state_dict(), "scale": 8.0, "_growth_tracker": 5})
    trained.save(tmp_path / "mixed.pt", {})
    resumed.load(tmp_path / "mixed.pt")
    assert resumed._agent.scaler.state_dict() == scaler.state_dict()

    # With and without may go on from each other.
    plain.load(tmp_path / "mixed.pt")
    plain.save(tmp_path / "plain.pt", {})
    begun.load(tmp_path / "plain.pt")
    assert begun._agent.scaler.get_scale() == 2.0**16


def test_mixed_precision_clips_the_gradient_and_not_its_scaled_copy(tmp_path: Path) -> None:
    agent: Any = build(tmp_path, mixed_precision=True)._agent
    agent.scaler.scale(torch.zeros(1))
    scale = agent.scaler.get_scale()
    actor, _ = set_gradients(agent, scale * 1e-6, scale * 1e-6)
    agent.scaler.step(agent.optimizer)
    assert all(torch.allclose(p.grad, torch.full_like(p, 1e-6)) for p in actor if p.grad is not None)


def test_the_learning_rate_follows_the_divergence(tmp_path: Path) -> None:
    agent: Any = build(tmp_path)._agent
    for divergence, factor in ((0.001, 1.5), (0.05, 1 / 1.5), (float("nan"), 1.0)):
        before = agent.optimizer.param_groups[0]["lr"]
        agent.scheduler.step(divergence)
        assert agent.optimizer.param_groups[0]["lr"] == pytest.approx(before * factor)
    for _ in range(20):
        agent.scheduler.step(0.05)
    assert agent.optimizer.param_groups[0]["lr"] == 1e-5


def test_playing_leaves_no_files_and_makes_no_memory(tmp_path: Path) -> None:
    runner = build(tmp_path)
    obs = FakeEnv().observe()
    assert torch.equal(runner.act(obs), runner.act(obs))
    assert not list(tmp_path.iterdir())
    assert not runner.holders()["rollout storage"]


@pytest.fixture
def stock_cfg() -> dict[str, Any]:
    """The agent of Isaac Lab's own cart-pole, with models that skrl makes from their text."""
    text = files("isaaclab_tasks.core.cartpole.agents").joinpath("skrl_direct_ppo_cfg.yaml").read_text()
    return yaml.safe_load(text)


def test_a_task_of_another_package_trains_and_resumes_with_skrls_own_models(
    stock_cfg: dict[str, Any], tmp_path: Path
) -> None:
    assert skrl.ADAPTER.batch_target(stock_cfg) == (32 * 4096, 32 * 4096 // 8)
    assert skrl.ADAPTER.max_iterations(stock_cfg) == 150
    configure = {"obs": None, "seed": 1, "max_iterations": 4, "device": "cpu", "experiment": "x"}
    skrl.ADAPTER.configure(stock_cfg, plan=PLAN, **configure)  # type: ignore[arg-type]
    runners = []
    for name in ("a", "b"):
        env = FakeGymEnv(FakeEnv(NUM_ENVS, "state"))
        runners.append(skrl.SkrlRunner(env, copy.deepcopy(stock_cfg), tmp_path / name, "cpu"))
    trained, resumed = runners
    trained.train(2, go_on)
    trained.save(tmp_path / "2.pt", {})
    resumed.load(tmp_path / "2.pt")
    obs = FakeEnv(NUM_ENVS, "state").observe()
    assert torch.equal(resumed.act(obs), trained.act(obs))
    resumed.train(3, go_on)
    assert resumed.completed_iterations == 3
    assert trained._networks().keys() == {"model", "observation_preprocessor", "value_preprocessor"}


def test_the_policy_of_skrls_own_models_is_exported(stock_cfg: dict[str, Any], tmp_path: Path) -> None:
    skrl.ADAPTER.configure(stock_cfg, obs=None, seed=1, max_iterations=4, device="cpu", plan=PLAN, experiment="x")

    def make(env: FakeEnv, folder: Path) -> skrl.SkrlRunner:
        return skrl.SkrlRunner(FakeGymEnv(env), stock_cfg, folder, "cpu")

    check_exports(make, NUM_ENVS, tmp_path)


def test_only_what_is_known_may_be_named_where_skrl_evaluates_text(stock_cfg: dict[str, Any], tmp_path: Path) -> None:
    stock_cfg["agent"]["learning_rate_scheduler"] = "exit()"
    env = FakeGymEnv(FakeEnv(NUM_ENVS, "state"))
    with pytest.raises(ConfigError, match=r"learning_rate_scheduler=exit\(\) is unknown: known: KLAdaptiveLR"):
        skrl.SkrlRunner(env, stock_cfg, tmp_path, "cpu")


def test_updates_that_end_early_are_refused_in_several_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert build(tmp_path, kl_threshold=0.01)
    monkeypatch.setattr(skrl_agent, "world_size", lambda: 2)
    with pytest.raises(ConfigError, match=r"agent\.agent\.kl_threshold .*: set gpus=1\."):
        build(tmp_path, kl_threshold=0.01)


def test_an_agent_that_is_not_ppo_is_refused(stock_cfg: dict[str, Any]) -> None:
    stock_cfg["agent"]["class"] = "AMP"
    with pytest.raises(ConfigError, match=r"runner=skrl trains with PPO.*AMP: give runner=rsl_rl"):
        skrl.ADAPTER.batch_target(stock_cfg)


def test_episodes_end_at_different_times_and_their_means_are_of_whole_ones(tmp_path: Path) -> None:
    lengths: list[float] = []

    def on_iteration(completed: int, metrics: Any) -> Decision:
        lengths.append(metrics["mean_episode_length"])
        return Decision.CONTINUE

    build(tmp_path).train(4, on_iteration)
    assert 0.0 < lengths[0] < lengths[-1] <= EPISODE
