# SPDX-License-Identifier: BSD-3-Clause
"""When a run stops before its end, and what it says then."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.learners import load_adapter
from isaaclab_pc.learners.common.batch import BatchPlan
from isaaclab_pc.processes.child_process import ExitCode
from isaaclab_pc.tasks.reach.reach_env_cfg import ReachEnvCfg
from isaaclab_pc.workers.watchdog import EarlyStop, LearnerWatch, StormWatch

ALL = {"Learner/updates": 20.0, "Learner/skipped_updates": 20.0}
SOME = {"Learner/updates": 20.0, "Learner/skipped_updates": 19.0}
NONE = {"Learner/updates": 20.0, "Learner/skipped_updates": 0.0}
ONE = {"Learner/updates": 30.0, "Learner/skipped_updates": 10.0, "Learner/stopped_optimizers": 1.0}


def resolved(*arguments: str) -> Any:
    settings = compose(arguments)
    return SimpleNamespace(settings=settings, adapter=load_adapter(settings.runner))


@pytest.mark.parametrize(
    ("iterations", "stops"),
    [
        ([ALL, ALL, ALL], True),
        ([ALL, ALL], False),
        ([ALL, ALL, SOME, ALL, ALL], False),
        ([ALL, ALL, NONE, ALL, ALL, ALL], True),
        ([SOME] * 10, False),
        ([ONE, ONE, ONE], True),
        ([ONE, ONE, {**ONE, "Learner/stopped_optimizers": 0.0}, ONE], False),
        ([{}] * 10, False),  # a library that reports no updates
    ],
)
def test_a_learner_is_lost_when_nothing_is_learned_for_three_iterations(iterations: Any, stops: bool) -> None:
    watch = LearnerWatch(resolved())
    found = [watch.check(metrics) for metrics in iterations]
    assert all(stop is None for stop in found[:-1])
    assert (found[-1] is not None) == stops


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["guard.mode=disabled"], "guard.mode=quarantine"),
        (["runner=rsl_rl"], "agent.algorithm.learning_rate"),
        (["runner=rl_games"], "agent.params.config.learning_rate"),
        (["runner=skrl"], "agent.agent.learning_rate"),
        (["runner=sb3"], "agent.learning_rate"),
    ],
)
def test_a_lost_learner_says_what_to_change(arguments: list[str], advice: str) -> None:
    watch = LearnerWatch(resolved(*arguments))
    stop = [watch.check(ALL) for _ in range(3)][-1]
    assert stop is not None
    assert (stop.status, stop.code, stop.physics) == ("failed", ExitCode.DIVERGED, None)
    assert advice in stop.message


class Physics:
    """A guard whose counters a test moves."""

    def __init__(
        self,
        num_envs: int = 8,
        share: float | None = 0.25,
        horizon: int = 100,
        mode: str = "quarantine",
        **resolved: Any,
    ) -> None:
        zeros = torch.zeros(num_envs, dtype=torch.long)
        self.guard = SimpleNamespace(env_counts=zeros, benched=torch.zeros(num_envs, dtype=torch.bool))
        env = SimpleNamespace(unwrapped=SimpleNamespace(guard=self.guard))
        plan = BatchPlan(horizon=horizon, num_minibatches=4, minibatch_size=64)
        cfg: Any = ReachEnvCfg()
        settings = compose(["physics=ovphysx"]).with_values({"guard.storm": share, "guard.mode": mode})
        values: Any = SimpleNamespace(**{"env_cfg": cfg, "settings": settings, "plan": plan, **resolved})
        self.watch = StormWatch(env, values, Path("logs/run"))

    def iterate(self, *faults: int) -> EarlyStop | None:
        """Count one fault in each of these environments, then look."""
        for env_id in faults:
            self.guard.env_counts[env_id] += 1
        return self.watch.check()


@pytest.mark.parametrize(
    ("given", "iterations", "stops"),
    [
        ({}, [(0, 1, 0, 1, 0, 1)], False),  # 2 of 8, whatever their number of faults
        ({}, [(0, 1, 0, 1), (2, 3, 4, 2)], True),
        # A window is a hundred steps, and each counts anew.
        ({"horizon": 40}, [(0, 1, 0, 1), (), (), (2, 3), (), ()], False),
        ({"horizon": 40}, [(0, 1, 0, 1), (), (), (2, 3), (4, 5), ()], True),
        # Fewer than four faults are no storm, however few environments there are.
        ({"num_envs": 1}, [(0, 0, 0), (0, 0, 0, 0)], True),
        ({"mode": "sanitize"}, [range(8)], False),
        ({"share": None}, [range(8)], False),
    ],
)
def test_a_storm_is_more_than_the_share_of_the_environments(given: dict, iterations: Any, stops: bool) -> None:
    physics = Physics(**given)
    *earlier, last = [physics.iterate(*faults) for faults in iterations]
    assert earlier == [None] * len(earlier)
    assert (last is not None) == stops


def test_faults_of_an_evaluation_are_no_storm() -> None:
    physics = Physics()
    physics.guard.env_counts[:6] += 1
    physics.watch.begin_window()
    assert physics.iterate() is None
    assert physics.iterate(0, 1, 2, 3) is not None


def test_benched_environments_count_on() -> None:
    physics = Physics()
    physics.guard.benched[:2] = True
    assert physics.iterate() is None
    physics.guard.benched[:3] = True
    assert physics.iterate() is not None


def test_a_task_without_a_guard_has_no_storms() -> None:
    resolved: Any = SimpleNamespace(plan=BatchPlan(200, 4, 64), settings=compose())
    watch = StormWatch(SimpleNamespace(unwrapped=SimpleNamespace()), resolved, Path())
    assert watch.check() is None


def test_the_advice_is_the_next_rung_for_people_and_for_a_supervisor() -> None:
    stop = Physics().iterate(*range(8))
    assert stop is not None
    assert (stop.status, stop.code) == ("storm", ExitCode.STORM)
    assert stop.physics == {"dt": 1 / 120, "decimation": 4}
    assert "guard.storm=0.25" in stop.message
    assert stop.message.endswith(f"train.py resume=logs/run physics.dt={1 / 120!r} physics.decimation=4")


def test_another_task_gets_its_own_settings_named() -> None:
    stop = Physics(env_cfg=SimpleNamespace()).iterate(*range(8))
    assert stop is not None
    assert stop.physics is None
    assert "env.sim.dt" in stop.message
