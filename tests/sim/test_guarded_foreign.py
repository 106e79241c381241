# SPDX-License-Identifier: BSD-3-Clause
"""The guard on tasks that are not this package's: Isaac Lab's cart-pole, direct and manager-based."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from isaaclab_pc.guards import GuardCfg, attach_guard

pytestmark = pytest.mark.sim

NUM_ENVS, SICK, STEPS, FAULT_STEP = 6, 2, 6, 3
BAD_VALUES = [float("nan"), float("inf"), -float("inf"), 1e30]
STATE_CAUSES = {"position", "orientation", "velocity", "joint_position", "joint_velocity"}


@pytest.fixture(scope="module")
def built(make_cartpole: Callable) -> tuple[Any, list["Step"]]:
    """The guarded environment, and what it did before it was guarded."""
    made = make_cartpole(NUM_ENVS, compute_final_obs=True)
    roll_out(made)  # the first one differs from all others, guarded or not
    unguarded = roll_out(made)
    attach_guard(made, GuardCfg(), made.spec.id)
    return made, unguarded


@pytest.fixture(scope="module")
def env(built: tuple[Any, list["Step"]]) -> Any:
    return built[0]


@dataclass
class Step:
    obs: torch.Tensor
    reward: torch.Tensor
    terminated: torch.Tensor
    truncated: torch.Tensor
    length: torch.Tensor
    log: dict[str, float]


def roll_out(env, fault: Callable[[torch.Tensor], None] = lambda actions: None) -> list[Step]:
    """Step from a seeded reset with fixed actions; ``fault`` runs before step ``FAULT_STEP`` and may change them."""
    obs, _ = env.reset(seed=5)
    generator = torch.Generator().manual_seed(1)
    steps = []
    for index in range(STEPS):
        actions = torch.rand(NUM_ENVS, 1, generator=generator) * 0.2 - 0.1
        if index == FAULT_STEP:
            fault(actions)
        obs, reward, terminated, truncated, extras = env.step(actions)
        final = extras.get("final_obs")
        assert final is None or final["policy"].isfinite().all()
        assert torch.equal(env.unwrapped.obs_buf["policy"], obs["policy"]), "wrappers read it there"
        log = {name: float(value) for name, value in extras["log"].items()}
        length = env.unwrapped.episode_length_buf.clone()
        steps.append(Step(obs["policy"], reward.clone(), terminated.clone(), truncated.clone(), length, log))
    return steps


def counts(env) -> dict[str, int]:
    return {cause: int(count) for cause, count in env.unwrapped.guard.counts.items()}


def once(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, change: Callable[[Any], None]) -> None:
    """Let the next call of a function return what ``change`` makes of its result, in place."""
    real = getattr(owner, name)

    def changed(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(owner, name, real)
        result = real(*args, **kwargs)
        change(result)
        return result

    monkeypatch.setattr(owner, name, changed)


Inject = Callable[[Any, pytest.MonkeyPatch, float, list[int]], Callable[[torch.Tensor], None]]


def inject_action(env, monkeypatch: pytest.MonkeyPatch, value: float, sick: list[int]) -> Callable:
    def fault(actions: torch.Tensor) -> None:
        actions[sick] = value

    return fault


def inject_joint_velocity(env, monkeypatch: pytest.MonkeyPatch, value: float, sick: list[int]) -> Callable:
    def fault(actions: torch.Tensor) -> None:
        cart = next(iter(env.unwrapped.scene.articulations.values()))
        velocity = torch.full((len(sick), cart.num_joints), value)
        cart.write_joint_velocity_to_sim_index(velocity=velocity, env_ids=torch.tensor(sick, dtype=torch.int32))

    return fault


def inject_reward(env, monkeypatch: pytest.MonkeyPatch, value: float, sick: list[int]) -> Callable:
    """Poison what the task's own code makes, below the guard."""

    def fault(actions: torch.Tensor) -> None:
        task = env.unwrapped
        if hasattr(task, "reward_manager"):
            term = task.reward_manager.get_term_cfg(task.reward_manager.active_terms[0])
            once(monkeypatch, term, "func", lambda reward: reward.__setitem__(sick, value))
        else:
            import isaaclab_tasks.core.cartpole.cartpole_direct_env as module

            once(monkeypatch, module, "compute_rewards", lambda reward: reward.__setitem__(sick, value))

    return fault


INJECTIONS: dict[str, tuple[Inject, set[str]]] = {
    "action": (inject_action, {"action"}),
    "joint velocity": (inject_joint_velocity, STATE_CAUSES),
    "reward": (inject_reward, {"reward"}),
}


@pytest.fixture(scope="module")
def clean(env) -> list[Step]:
    steps = roll_out(env)
    assert not any((step.terminated | step.truncated).any() for step in steps)
    return steps


def test_a_run_without_faults_is_the_same_as_without_the_guard(
    built: tuple[Any, list[Step]], clean: list[Step]
) -> None:
    assert_neighbours_unchanged(built[1], clean, [])


def assert_neighbours_unchanged(steps: list[Step], clean: list[Step], sick: list[int]) -> None:
    healthy = [index for index in range(NUM_ENVS) if index not in sick]
    for step, reference in zip(steps, clean, strict=True):
        assert step.obs.isfinite().all()
        assert step.reward.isfinite().all()
        assert torch.equal(step.obs[healthy], reference.obs[healthy])
        assert torch.equal(step.reward[healthy], reference.reward[healthy])


@pytest.mark.parametrize(
    ("value", "sick"),
    [*((value, [SICK]) for value in BAD_VALUES), (BAD_VALUES[0], [1, 4]), (BAD_VALUES[0], list(range(NUM_ENVS)))],
)
@pytest.mark.parametrize("where", INJECTIONS)
def test_a_fault_ends_its_environments_in_the_same_step_and_no_other(
    env, clean: list[Step], monkeypatch: pytest.MonkeyPatch, where: str, value: float, sick: list[int]
) -> None:
    inject, causes = INJECTIONS[where]
    before = counts(env)
    steps = roll_out(env, inject(env, monkeypatch, value, sick))
    faulty = steps[FAULT_STEP]
    assert faulty.terminated.tolist() == [index in sick for index in range(NUM_ENVS)]
    assert not faulty.truncated.any()
    assert not faulty.reward[sick].any()
    assert not faulty.length[sick].any(), "the environment is reset in the step of the fault"
    assert faulty.obs[sick].any(), "what is returned is the new episode's observation"
    assert not any(step.terminated.any() for step in steps[FAULT_STEP + 1 :]), "one reset heals"
    assert_neighbours_unchanged(steps, clean, sick)
    counted = {cause: count - before[cause] for cause, count in counts(env).items() if count != before[cause]}
    assert set(counted) <= causes
    assert sum(counted.values()) == len(sick)
    assert {f"Guard/{cause}": float(count) for cause, count in counts(env).items()}.items() <= steps[-1].log.items()


@pytest.mark.parametrize("value", BAD_VALUES)
def test_a_bad_observation_is_filled_and_its_environment_reset_before_the_next_physics_step(
    env, clean: list[Step], monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    before = counts(env)["observation"]

    def fault(actions: torch.Tensor) -> None:
        task = env.unwrapped
        owner, name = (
            (task.observation_manager, "compute")
            if hasattr(task, "observation_manager")
            else (task, "_get_observations")
        )
        once(monkeypatch, owner, name, lambda obs: obs["policy"].__setitem__((SICK, -1), value))

    steps = roll_out(env, fault)
    faulty, after = steps[FAULT_STEP], steps[FAULT_STEP + 1]
    assert faulty.terminated.tolist() == [index == SICK for index in range(NUM_ENVS)]
    assert faulty.reward[SICK] == 0.0
    assert not faulty.obs[SICK].any(), "fill values are zeros"
    assert after.length[SICK] == 1
    assert not after.terminated.any()
    assert_neighbours_unchanged(steps, clean, [SICK])
    assert counts(env)["observation"] == before + 1


@pytest.mark.parametrize("where", ["action", "joint velocity"])
def test_the_tasks_own_log_stays_finite(env, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    steps = roll_out(env, INJECTIONS[where][0](env, monkeypatch, float("nan"), [SICK]))
    logged = {name: value for step in steps for name, value in step.log.items()}
    assert any(not name.startswith("Guard/") for name in logged)
    assert all(torch.tensor(value).isfinite() for value in logged.values()), logged


def test_a_healed_environment_goes_on_as_after_any_other_reset(env, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever solver, actuators and buffers keep between steps holds nothing of the fault."""

    def time_out(actions: torch.Tensor) -> None:
        env.unwrapped.episode_length_buf[SICK] = env.unwrapped.max_episode_length

    reference = roll_out(env, time_out)
    healed = roll_out(env, inject_joint_velocity(env, monkeypatch, float("nan"), [SICK]))
    assert reference[FAULT_STEP].truncated[SICK]
    assert healed[FAULT_STEP].terminated[SICK]
    for step, expected in zip(healed[FAULT_STEP:], reference[FAULT_STEP:], strict=True):
        assert torch.equal(step.obs, expected.obs)
