# SPDX-License-Identifier: BSD-3-Clause
"""Where Stable-Baselines3 is made to mean what RSL-RL means by a hyperparameter, and to hold no more than it must."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from isaaclab_pc.agents import ppo
from isaaclab_pc.learners.sb3 import cfg as sb3_cfg
from tests.unit.learners.bench import NUM_ENVS, go_on, make_runner
from tests.unit.learners.fake_env import ACTIONS, FakeEnv


def build(folder: Path, env: FakeEnv | None = None, **agent: Any) -> Any:
    cfg = {**sb3_cfg.make_cfg(ppo.REACH, "x"), **agent}
    return make_runner("sb3", cfg, env or FakeEnv(NUM_ENVS), folder)


def test_an_update_copies_no_rollout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent: Any = build(tmp_path)._agent
    collected: dict[str, np.ndarray] = {}
    train = agent.train

    def watched() -> None:
        collected.update(agent.rollout_buffer.observations)
        train()

    monkeypatch.setattr(agent, "train", watched)
    agent.run(0, 1, lambda: False)
    assert set(collected) == {"policy", "points", "critic"}
    assert all(np.shares_memory(agent.rollout_buffer.observations[name], array) for name, array in collected.items())


def test_advantages_are_normalized_over_the_whole_rollout(tmp_path: Path) -> None:
    runner = build(tmp_path)
    runner.train(1, go_on)
    rollout: Any = runner.holders()["rollout storage"]
    assert float(rollout["advantages"].mean()) == pytest.approx(0.0, abs=1e-6)
    assert float(rollout["advantages"].std(correction=0)) == pytest.approx(1.0, rel=1e-4)
    raw = rollout["returns"] - rollout["values"]
    torch.testing.assert_close(rollout["advantages"], (raw - raw.mean()) / raw.std(correction=0))


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
    rising.run(0, 1, lambda: False)
    assert rising.present_learning_rate == pytest.approx(min(1e-2, ppo.REACH.learning_rate * 1.5**5))


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
