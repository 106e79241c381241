# SPDX-License-Identifier: BSD-3-Clause
"""Every library on Isaac Lab's own cart-pole, with the agents that come with it: train, save, resume and play."""

import math
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch

from isaaclab_pc.learners import RUNNERS, Decision, LearnerOptions, agent_key, load_adapter
from isaaclab_pc.learners.common.batch import BatchPlan

pytestmark = [pytest.mark.sim, pytest.mark.slow]

NUM_ENVS = 4
PLAN = BatchPlan(horizon=8, num_minibatches=2, minibatch_size=16)


def test_train_save_resume_play(make_cartpole: Callable, tmp_path: Path) -> None:
    from isaaclab_tasks.utils.parse_cfg import load_cfg_from_registry

    env = make_cartpole(NUM_ENVS)
    losses: list[float] = []

    def on_iteration(completed: int, metrics: Mapping[str, float]) -> Decision:
        losses.append(metrics["loss/value"])
        return Decision.CONTINUE

    for name in RUNNERS:
        adapter = load_adapter(name)
        runners = []
        for folder in ("trained", "resumed"):
            cfg = load_cfg_from_registry(env.spec.id, agent_key(name, "default"))
            options = LearnerOptions(obs=None, seed=1, max_iterations=3, device="cpu", plan=PLAN, experiment="cartpole")
            adapter.configure(cfg, options)
            runners.append(adapter.make(env, cfg, tmp_path / name / folder, "cpu"))
        trained, resumed = runners
        trained.train(2, on_iteration)
        trained.save(tmp_path / f"{name}.pt", {})
        assert resumed.load(tmp_path / f"{name}.pt")["iteration"] == 2

        obs, _ = env.reset()
        action = resumed.act(obs)
        assert action.shape == (NUM_ENVS, 1)
        torch.testing.assert_close(action, trained.act(obs))
        resumed.train(3, on_iteration)
        assert resumed.completed_iterations == 3
    assert all(math.isfinite(loss) for loss in losses)
