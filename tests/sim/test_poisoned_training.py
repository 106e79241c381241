# SPDX-License-Identifier: BSD-3-Clause
"""A policy that was trained among faults is as good as one that was not."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import pytest
import torch

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.learners import Decision
from isaaclab_pc.workers.evaluation import evaluate
from isaaclab_pc.workers.session import open_session

pytestmark = [pytest.mark.sim, pytest.mark.slow, pytest.mark.timeout(3600)]

NUM_ENVS, ITERATIONS, EPISODES = 64, 60, 128
SEEDS = (1, 2, 3)
POISONED_SHARE = 1e-3
BAD_VALUES = (float("nan"), float("inf"), -float("inf"), 1e30)


@contextmanager
def poisoned(env: Any, share: float, seed: int) -> Iterator[list[int]]:
    """Put bad values into a share of all environment steps, at a random place; counts them in the list's one entry."""
    chance = random.Random(seed)
    injected = [0]
    real_step, real_terms, real_observe = env.step, env._reward_terms, env._observe
    pending: dict[str, list[tuple[int, float]]] = {"reward": [], "observation": []}

    def step(actions: torch.Tensor) -> Any:
        actions = actions.clone()
        for index in range(env.num_envs):
            if chance.random() >= share:
                continue
            injected[0] += 1
            place, value = chance.choice(("action", "state", "reward", "observation")), chance.choice(BAD_VALUES)
            if place == "action":
                actions[index, 0] = value
            elif place == "state":
                velocity = torch.full((1, env.robot.num_joints), value)
                ids = torch.tensor([index], dtype=torch.int32)
                env.robot.write_joint_velocity_to_sim_index(velocity=velocity, env_ids=ids)
            else:
                pending[place].append((index, value))
        outcome = real_step(actions)
        observations, reward, *_ = outcome
        assert all(torch.isfinite(value).all() for value in (reward, *observations.values()))
        return outcome

    def reward_terms() -> dict[str, torch.Tensor]:
        terms = real_terms()
        while pending["reward"]:
            index, value = pending["reward"].pop()
            next(iter(terms.values()))[index] = value
        return terms

    def observe() -> dict[str, torch.Tensor]:
        observations = real_observe()
        while pending["observation"]:
            index, value = pending["observation"].pop()
            observations["policy"][index, 0] = value
        return observations

    env.step, env._reward_terms, env._observe = step, reward_terms, observe
    try:
        yield injected
    finally:
        del env.step, env._reward_terms, env._observe


def success_after_training(backend: str, folder: Path, seed: int, share: float) -> float:
    """Train, then evaluate without any poison; returns the success rate."""
    torch.manual_seed(seed)
    settings = ["task=reach", "obs=state", "device=cpu", f"physics={backend}", f"seed={seed}", "eval.seed=1000"]
    folder.mkdir()
    with open_session(compose(settings), NUM_ENVS, folder) as session:
        with poisoned(session.env.unwrapped, share, seed) as injected:
            session.runner.train(ITERATIONS, lambda completed, metrics: Decision.CONTINUE)
        expected = share * NUM_ENVS * ITERATIONS * session.resolved.plan.horizon
        assert injected[0] == pytest.approx(expected, rel=0.3)
        result = evaluate(session.env, session.runner.act, EPISODES, seed=1000)
    assert result is not None
    assert result.success_rate is not None
    print(f"seed {seed}, {injected[0]} poisoned steps: success {result.success_rate}", flush=True)
    return result.success_rate


def test_one_step_in_a_thousand_poisoned_costs_no_success(backend: str, tmp_path: Path) -> None:
    clean = [success_after_training(backend, tmp_path / f"clean_{seed}", seed, 0.0) for seed in SEEDS]
    sick = [success_after_training(backend, tmp_path / f"sick_{seed}", seed, POISONED_SHARE) for seed in SEEDS]
    print(f"success, clean: {clean}, poisoned: {sick}")
    assert mean(clean) > 0.7
    standard_error = ((stdev(clean) ** 2 + stdev(sick) ** 2) / len(SEEDS)) ** 0.5
    assert mean(sick) >= mean(clean) - max(2 * standard_error, 0.03)
