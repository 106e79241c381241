# SPDX-License-Identifier: BSD-3-Clause
"""Where skrl is made to mean what RSL-RL means by a hyperparameter, and to hold no more than it must."""

from pathlib import Path
from typing import Any

import pytest
import torch

from isaaclab_pc.agents import ppo
from isaaclab_pc.learners.skrl import cfg as skrl_cfg
from isaaclab_pc.learners.skrl.agent import GroupMemory
from tests.unit.learners.bench import NUM_ENVS, make_runner
from tests.unit.learners.fake_env import FakeEnv, FakeGymEnv


def build(folder: Path, **agent: Any) -> Any:
    cfg = skrl_cfg.make_cfg(ppo.REACH, "x")
    cfg["agent"].update(agent)
    return make_runner("skrl", cfg, FakeEnv(NUM_ENVS), folder)


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
    agent = build(tmp_path)._agent
    for divergence, factor in ((0.001, 1.5), (0.05, 1 / 1.5), (float("nan"), 1.0)):
        before = agent.optimizer.param_groups[0]["lr"]
        agent.scheduler.step(divergence)
        assert agent.optimizer.param_groups[0]["lr"] == pytest.approx(before * factor)
    for _ in range(20):
        agent.scheduler.step(0.05)
    assert agent.optimizer.param_groups[0]["lr"] == 1e-5
