# SPDX-License-Identifier: BSD-3-Clause
"""Where skrl is made to mean what RSL-RL means by a hyperparameter, and to hold no more than it must."""

import gc
from pathlib import Path
from typing import Any

import pytest
import torch

from isaaclab_pc.agents import ppo
from isaaclab_pc.learners.skrl import cfg as skrl_cfg
from isaaclab_pc.learners.skrl.agent import GroupMemory
from tests.unit.learners.bench import NUM_ENVS, PLAN, go_on, make_runner
from tests.unit.learners.fake_env import ACTIONS, NUM_POINTS, FakeEnv, FakeGymEnv


def build(folder: Path, **agent: Any) -> Any:
    cfg = skrl_cfg.make_cfg(ppo.REACH, "x")
    cfg["agent"].update(agent)
    return make_runner("skrl", cfg, FakeEnv(NUM_ENVS), folder)


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
    assert set(held) == {(PLAN.horizon * NUM_ENVS + PLAN.minibatch_size) * sample_bytes}


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


def test_the_learning_rate_follows_the_divergence(tmp_path: Path) -> None:
    agent: Any = build(tmp_path)._agent
    for divergence, factor in ((0.001, 1.5), (0.05, 1 / 1.5), (float("nan"), 1.0)):
        before = agent.optimizer.param_groups[0]["lr"]
        agent.scheduler.step(divergence)
        assert agent.optimizer.param_groups[0]["lr"] == pytest.approx(before * factor)
    for _ in range(20):
        agent.scheduler.step(0.05)
    assert agent.optimizer.param_groups[0]["lr"] == 1e-5
