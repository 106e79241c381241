# SPDX-License-Identifier: BSD-3-Clause
"""Faults injected into a real environment stay in the environment that has them, for one episode."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch

pytestmark = pytest.mark.sim

NUM_ENVS, SICK, STEPS, FAULT_STEP = 6, 2, 6, 3
HEALTHY = [env for env in range(NUM_ENVS) if env != SICK]
BAD_VALUES = [float("nan"), float("inf"), -float("inf"), 1e30]


@pytest.fixture(scope="module")
def env(make_env: Callable):
    def adjust(cfg) -> None:
        cfg.compute_final_obs = True

    return make_env("IsaacPC-Lift-Cube-Franka-Direct", NUM_ENVS, adjust)


@dataclass
class Step:
    obs: dict[str, torch.Tensor]
    reward: torch.Tensor
    terminated: torch.Tensor
    truncated: torch.Tensor
    episode: torch.Tensor
    length: torch.Tensor
    success: torch.Tensor
    final_obs: dict[str, torch.Tensor] | None


def roll_out(env, fault: Callable[[torch.Tensor], None] = lambda actions: None) -> list[Step]:
    """Step from a seeded reset with fixed actions; ``fault`` runs before step ``FAULT_STEP`` and may change them."""
    env.reset(seed=5)
    generator = torch.Generator().manual_seed(1)
    steps = []
    for index in range(STEPS):
        actions = torch.rand(NUM_ENVS, env.cfg.action_space, generator=generator) * 2 - 1
        if index == FAULT_STEP:
            fault(actions)
        env.extras.pop("final_obs", None)
        obs, reward, terminated, truncated, extras = env.step(actions)
        final = extras.get("final_obs")
        steps.append(
            Step(
                {name: value.clone() for name, value in obs.items()},
                reward.clone(),
                terminated.clone(),
                truncated.clone(),
                env.episode.clone(),
                env.episode_length_buf.clone(),
                env.episode_success.clone(),
                None if final is None else {name: value.clone() for name, value in final.items()},
            )
        )
    return steps


def counts(env) -> dict[str, int]:
    return {cause: int(count) for cause, count in env.guard.counts.items()}


def inject_action(env, monkeypatch: pytest.MonkeyPatch, value: float) -> Callable:
    return lambda actions: actions[SICK, 1].fill_(value)


def inject_joint_velocity(env, monkeypatch: pytest.MonkeyPatch, value: float) -> Callable:
    def fault(actions: torch.Tensor) -> None:
        velocity = torch.full((1, env.robot.num_joints), value)
        env.robot.write_joint_velocity_to_sim_index(velocity=velocity, env_ids=torch.tensor([SICK], dtype=torch.int32))

    return fault


def inject_object_velocity(env, monkeypatch: pytest.MonkeyPatch, value: float) -> Callable:
    def fault(actions: torch.Tensor) -> None:
        velocity = torch.full((1, 6), value)
        env.cube.write_root_velocity_to_sim_index(
            root_velocity=velocity, env_ids=torch.tensor([SICK], dtype=torch.int32)
        )

    return fault


def inject_reward(env, monkeypatch: pytest.MonkeyPatch, value: float) -> Callable:
    def fault(actions: torch.Tensor) -> None:
        real = env._reward_terms

        def once() -> dict[str, torch.Tensor]:
            monkeypatch.setattr(env, "_reward_terms", real)
            terms = real()
            terms["reach"][SICK] = value
            return terms

        monkeypatch.setattr(env, "_reward_terms", once)

    return fault


def inject_reading(env, monkeypatch: pytest.MonkeyPatch, value: float) -> Callable:
    def fault(actions: torch.Tensor) -> None:
        real = env._physics_state

        def once() -> list[torch.Tensor]:
            monkeypatch.setattr(env, "_physics_state", real)
            env.cube.data.root_vel_w.torch[SICK] = value
            return real()

        monkeypatch.setattr(env, "_physics_state", once)

    return fault


INJECTIONS = {
    "action": (inject_action, "action"),
    "joint velocity": (inject_joint_velocity, "state"),
    "object velocity": (inject_object_velocity, "state"),
    "object velocity as read": (inject_reading, "state"),
    "reward": (inject_reward, "reward"),
}


def is_refused(backend: str, where: str, value: float) -> bool:
    """Whether PhysX itself rejects or clamps such a write, so that nothing bad comes of it."""
    return backend == "ovphysx" and (where == "object velocity" or (where == "joint velocity" and value == 1e30))


@pytest.fixture(scope="module")
def clean(env) -> list[Step]:
    return roll_out(env)


def test_the_same_seed_gives_the_same_trajectory(env, clean: list[Step]) -> None:
    for first, second in zip(clean, roll_out(env), strict=True):
        assert torch.equal(first.reward, second.reward)
        assert all(torch.equal(value, second.obs[name]) for name, value in first.obs.items())


@pytest.mark.parametrize("value", BAD_VALUES)
@pytest.mark.parametrize("where", INJECTIONS)
def test_a_fault_ends_its_environment_in_the_same_step_and_no_other(
    env, backend: str, clean: list[Step], monkeypatch: pytest.MonkeyPatch, where: str, value: float
) -> None:
    inject, cause = INJECTIONS[where]
    before = counts(env)
    steps = roll_out(env, inject(env, monkeypatch, value))
    faulty = steps[FAULT_STEP]
    if is_refused(backend, where, value):
        assert not any(step.terminated.any() for step in steps)
        assert counts(env) == before
        return
    assert faulty.terminated.tolist() == [index == SICK for index in range(NUM_ENVS)]
    assert not faulty.truncated.any()
    assert faulty.reward[SICK] == 0.0
    assert faulty.length[SICK] == 0, "the environment is reset in the step of the fault"
    assert faulty.episode[SICK] == clean[FAULT_STEP].episode[SICK] + 1
    assert faulty.final_obs is not None
    for step in steps:
        for name, group in [*step.obs.items(), *(step.final_obs or {}).items()]:
            assert group.isfinite().all(), name
        assert step.reward.isfinite().all()
    assert not any(step.terminated.any() for step in steps[FAULT_STEP + 1 :]), "one reset heals"
    for step, reference in zip(steps, clean, strict=True):
        assert torch.equal(step.reward[HEALTHY], reference.reward[HEALTHY])
        for name, group in step.obs.items():
            assert torch.equal(group[HEALTHY], reference.obs[name][HEALTHY]), name
    assert {name: count - before[name] for name, count in counts(env).items() if count != before[name]} == {cause: 1}


@pytest.mark.parametrize("value", [float("nan"), -float("inf"), -1.0])
def test_a_broken_image_ends_its_environment_which_is_reset_before_the_next_physics_step(
    env, clean: list[Step], monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    camera = type(env.camera)
    real = camera.data.fget
    state = {"armed": False}

    def corrupted(self):
        data = real(self)
        if state["armed"]:
            data.output["depth"].torch[SICK, 3, 4] = value
        return data

    monkeypatch.setattr(camera, "data", property(corrupted))
    real_step = env.step

    def fault(actions: torch.Tensor) -> None:
        def once(action: torch.Tensor):
            state["armed"] = True
            env.episode_success[SICK] = True  # an earlier episode's
            monkeypatch.setattr(env, "step", real_step)
            result = real_step(action)
            state["armed"] = False
            return result

        monkeypatch.setattr(env, "step", once)

    before = counts(env)
    steps = roll_out(env, fault)
    faulty, after = steps[FAULT_STEP], steps[FAULT_STEP + 1]
    assert faulty.terminated.tolist() == [index == SICK for index in range(NUM_ENVS)]
    assert faulty.reward[SICK] == 0.0
    assert not any(value[SICK].any() for value in faulty.obs.values()), "fill values are zeros"
    assert not faulty.success[SICK], "a broken episode is no success"
    assert after.episode[SICK] == faulty.episode[SICK] + 1
    assert after.length[SICK] == 1
    assert not after.terminated.any()
    for step, reference in zip(steps, clean, strict=True):
        assert all(value.isfinite().all() for value in step.obs.values())
        assert torch.equal(step.reward[HEALTHY], reference.reward[HEALTHY])
    assert counts(env)["observation"] == before["observation"] + 1


def test_infinite_depth_is_a_miss_and_no_fault(env, clean: list[Step], monkeypatch: pytest.MonkeyPatch) -> None:
    camera = type(env.camera)
    real = camera.data.fget

    def no_hits(self):
        data = real(self)
        data.output["depth"].torch[SICK] = float("inf")
        return data

    monkeypatch.setattr(camera, "data", property(no_hits))
    steps = roll_out(env)
    assert not any(step.terminated.any() for step in steps)
    assert all(not step.obs["points"][SICK].any() for step in steps), "an empty cloud is zeros"
