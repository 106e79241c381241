# SPDX-License-Identifier: BSD-3-Clause
"""Guard, evaluation and learning on tasks of another package: Isaac Lab's cart-pole, direct and manager-based."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from isaaclab_pc.guards import GuardCfg, attach_guard
from isaaclab_pc.learners import RUNNERS, Decision, LearnerOptions, agent_key, load_adapter
from isaaclab_pc.learners.common.batch import BatchPlan
from isaaclab_pc.workers.evaluation import evaluate_in_between
from tests.sim import guarded
from tests.sim.guarded import NUM_ENVS, SICK, Fault, Inject, Step, put, roll_out

pytestmark = pytest.mark.sim


@pytest.fixture(scope="module")
def built(make_cartpole: Callable) -> tuple[Any, list[Step]]:
    """The guarded environment, and what it did before it was guarded."""
    env = make_cartpole(NUM_ENVS, compute_final_obs=True)
    roll_out(env)  # the first one differs from all others, guarded or not
    unguarded = roll_out(env)
    attach_guard(env, GuardCfg(), env.spec.id)
    return env, unguarded


@pytest.fixture(scope="module")
def env(built: tuple[Any, list[Step]]) -> Any:
    return built[0]


@pytest.fixture(scope="module")
def clean(env: Any) -> list[Step]:
    steps = roll_out(env)
    assert not any((step.terminated | step.truncated).any() for step in steps)
    return steps


def inject_reward(env: Any, monkeypatch: pytest.MonkeyPatch, sick: Mapping[int, float]) -> Fault:
    """Poison what the task's own code makes, below the guard."""

    def fault(actions: torch.Tensor) -> None:
        if hasattr(env, "reward_manager"):
            owner, name = env.reward_manager.get_term_cfg(env.reward_manager.active_terms[0]), "func"
        else:
            import isaaclab_tasks.core.cartpole.cartpole_direct_env as owner

            name = "compute_rewards"
        guarded.once(monkeypatch, owner, name, lambda reward: put(reward, sick))

    return fault


INJECTIONS: dict[str, tuple[Inject, set[str]]] = {
    "action": (guarded.inject_action, {"action"}),
    "joint velocity": (guarded.inject_joint_velocity, guarded.STATE_CAUSES),
    "reward": (inject_reward, {"reward"}),
}


def test_a_run_without_faults_is_the_same_as_without_the_guard(
    built: tuple[Any, list[Step]], clean: list[Step]
) -> None:
    guarded.assert_healthy_unchanged(built[1], clean, [])


@pytest.mark.parametrize("sick", [guarded.ONE_EACH, guarded.ALL], ids=["one each", "all"])
@pytest.mark.parametrize("where", INJECTIONS)
def test_a_fault_ends_its_environments_in_the_same_step_and_no_other(
    env: Any, clean: list[Step], monkeypatch: pytest.MonkeyPatch, where: str, sick: dict[int, float]
) -> None:
    inject, causes = INJECTIONS[where]
    before = guarded.counts(env)
    steps = roll_out(env, inject(env, monkeypatch, sick))
    guarded.assert_ended(steps, list(sick))
    guarded.assert_healthy_unchanged(steps, clean, list(sick))
    counted = guarded.newly_counted(env, before)
    assert set(counted) <= causes
    assert sum(counted.values()) == len(sick)
    for cause, count in guarded.counts(env).items():
        assert steps[-1].log[f"Guard/{cause}"] == count

    # Isaac Lab's manager logs a reward as it is before the guard sees it.
    if where != "reward":
        logged = {name: value for step in steps for name, value in step.log.items()}
        assert any(not name.startswith("Guard/") for name in logged)
        assert all(math.isfinite(value) for value in logged.values()), logged


def test_a_bad_observation_is_filled_and_its_environment_reset_before_the_next_physics_step(
    env: Any, clean: list[Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = guarded.counts(env)
    managed = hasattr(env, "observation_manager")
    observe = (env.observation_manager, "compute") if managed else (env, "_get_observations")

    def fault(actions: torch.Tensor) -> None:
        guarded.once(monkeypatch, *observe, lambda obs: put(obs["policy"][:, -1], guarded.ONE_EACH))

    steps = roll_out(env, fault)
    guarded.assert_ended_by_observation(steps, clean, list(guarded.ONE_EACH))
    assert guarded.newly_counted(env, before) == {"observation": len(guarded.ONE_EACH)}


def test_a_healed_environment_goes_on_as_after_any_other_reset(env: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    guarded.assert_healed_as_after_any_reset(env, guarded.inject_joint_velocity(env, monkeypatch, {SICK: math.nan}))


@pytest.mark.parametrize("where", ["action", "joint velocity"])
def test_what_is_sanitized_does_not_fail_a_step_later(env: Any, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    monkeypatch.delattr(env, "guard")
    monkeypatch.setattr(env.step_methods, "use_filter", partial(monkeypatch.setattr, env.step_methods, "_filter"))
    guard = attach_guard(env, GuardCfg(mode="sanitize", max_abs=1e6), env.spec.id)
    steps = roll_out(env, INJECTIONS[where][0](env, monkeypatch, guarded.ONE_EACH))
    assert not any(step.terminated.any() for step in steps)
    guarded.assert_healthy_unchanged(steps, steps, [])
    assert guard.env_counts.tolist() == [int(index in guarded.ONE_EACH) for index in range(NUM_ENVS)]


def test_a_task_is_evaluated_in_the_middle_of_a_training(env: Any) -> None:
    push = torch.ones(NUM_ENVS, 1)
    env.reset(seed=11)
    env.step(push)
    steps, generator = env.common_step_counter, torch.get_rng_state()
    result = evaluate_in_between(env, lambda observations: push, 2 * NUM_ENVS, seed=5)
    assert result is not None
    assert (result.episodes, result.success, result.breakdown) == (2 * NUM_ENVS, None, ())
    assert result.mean_return is not None

    assert env.common_step_counter == steps
    assert (env.episode_length_buf == 0).all()
    assert "log" not in env.extras
    torch.set_rng_state(generator)
    expected = env.reset()[0]["policy"]
    torch.testing.assert_close(env.obs_buf["policy"], expected)


@pytest.mark.slow
def test_every_library_trains_saves_resumes_and_plays_with_isaac_labs_agents(env: Any, tmp_path: Path) -> None:
    from isaaclab_tasks.utils.parse_cfg import load_cfg_from_registry

    plan = BatchPlan(horizon=8, num_minibatches=2, minibatch_size=4 * NUM_ENVS)
    losses: list[float] = []

    def on_iteration(completed: int, metrics: Mapping[str, float]) -> Decision:
        losses.append(metrics["loss/value"])
        return Decision.CONTINUE

    for name in RUNNERS:
        adapter = load_adapter(name)
        runners = []
        for folder in ("trained", "resumed"):
            cfg = load_cfg_from_registry(env.spec.id, agent_key(name, "default"))
            options = LearnerOptions(obs=None, seed=1, max_iterations=3, device="cpu", plan=plan)
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
