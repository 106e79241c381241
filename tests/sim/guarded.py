# SPDX-License-Identifier: BSD-3-Clause
"""Short roll-outs of a guarded environment, with faults in one of their steps, and their comparison."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch

NUM_ENVS, STEPS, FAULT_STEP = 6, 6, 3
SICK = 2
ONE_EACH: dict[int, float] = {0: math.nan, 1: math.inf, 3: -math.inf, 4: 1e30}
"""Environments and their bad values; the others are healthy."""
ALL: dict[int, float] = dict.fromkeys(range(NUM_ENVS), math.nan)
STATE_CAUSES = {"position", "orientation", "velocity", "joint_position", "joint_velocity"}

Fault = Callable[[torch.Tensor], None]
"""Runs before the step of the fault, with its actions, which it may change."""
Inject = Callable[[Any, pytest.MonkeyPatch, Mapping[int, float]], Fault]
"""Makes the fault that gives environments bad values, once."""


@dataclass
class Step:
    """Copies of what a step returned and left."""

    obs: dict[str, torch.Tensor]
    reward: torch.Tensor
    terminated: torch.Tensor
    truncated: torch.Tensor
    length: torch.Tensor
    log: dict[str, float]
    final_obs: dict[str, torch.Tensor]


def roll_out(env: Any, fault: Fault | None = None) -> list[Step]:
    """Step from a seeded reset with fixed actions."""
    env.reset(seed=5)
    generator = torch.Generator().manual_seed(1)
    steps = []
    for index in range(STEPS):
        # Small: the cart stays on its rail.
        actions = torch.rand(NUM_ENVS, *env.single_action_space.shape, generator=generator) * 0.2 - 0.1
        if index == FAULT_STEP and fault is not None:
            fault(actions)
        env.extras.pop("final_obs", None)
        obs, reward, terminated, truncated, extras = env.step(actions)
        assert all(torch.equal(env.obs_buf[name], value) for name, value in obs.items()), "wrappers read it there"
        groups = (obs, extras.get("final_obs", {}))
        obs, final_obs = ({name: value.clone() for name, value in group.items()} for group in groups)
        log = {name: float(value) for name, value in extras["log"].items()}
        ends = (reward.clone(), terminated.clone(), truncated.clone(), env.episode_length_buf.clone())
        steps.append(Step(obs, *ends, log, final_obs))
    return steps


def assert_healthy_unchanged(steps: Sequence[Step], clean: Sequence[Step], sick: Sequence[int]) -> None:
    """Everything is finite, and the other environments are bit for bit as without the fault."""
    healthy = [index for index in range(NUM_ENVS) if index not in sick]
    for step, reference in zip(steps, clean, strict=True):
        assert step.reward.isfinite().all()
        assert torch.equal(step.reward[healthy], reference.reward[healthy])
        for name, group in (*step.obs.items(), *step.final_obs.items()):
            assert group.isfinite().all(), name
        for name, group in step.obs.items():
            assert torch.equal(group[healthy], reference.obs[name][healthy]), name


def assert_ended(steps: Sequence[Step], sick: Sequence[int]) -> None:
    """The step of the fault ended these episodes alone, and one reset healed."""
    faulty = steps[FAULT_STEP]
    assert faulty.terminated.tolist() == [index in sick for index in range(NUM_ENVS)]
    assert not faulty.truncated.any()
    assert not faulty.reward[sick].any()
    assert not faulty.length[sick].any(), "they are reset in the step of the fault"
    assert all(faulty.obs[name][index].any() for name in faulty.obs for index in sick), "it is the next episode's"
    assert not any(step.terminated.any() for step in steps[FAULT_STEP + 1 :])


def assert_ended_by_observation(steps: Sequence[Step], clean: Sequence[Step], sick: Sequence[int]) -> None:
    """As :func:`assert_ended`, where the reset is before the next physics step."""
    faulty, after = steps[FAULT_STEP : FAULT_STEP + 2]
    assert faulty.terminated.tolist() == [index in sick for index in range(NUM_ENVS)]
    assert not faulty.reward[sick].any()
    assert not any(value[sick].any() for value in faulty.obs.values()), "fill values are zeros"
    assert after.length[sick].tolist() == [1] * len(sick)
    assert not after.terminated.any()
    assert_healthy_unchanged(steps, clean, sick)


def assert_healed_as_after_any_reset(env: Any, fault: Fault) -> None:
    """Whatever solver, actuators and buffers keep between steps holds nothing of the fault."""

    def time_out(actions: torch.Tensor) -> None:
        env.episode_length_buf[SICK] = env.max_episode_length

    reference, healed = roll_out(env, time_out), roll_out(env, fault)
    assert reference[FAULT_STEP].truncated[SICK]
    assert healed[FAULT_STEP].terminated[SICK]
    for step, expected in zip(healed[FAULT_STEP:], reference[FAULT_STEP:], strict=True):
        assert all(torch.equal(value, expected.obs[name]) for name, value in step.obs.items())


def counts(env: Any) -> dict[str, int]:
    return {cause: int(count) for cause, count in env.guard.counts.items()}


def newly_counted(env: Any, before: dict[str, int]) -> dict[str, int]:
    return {cause: count - before[cause] for cause, count in counts(env).items() if count != before[cause]}


def once(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, change: Callable[[Any], object]) -> None:
    """Let the next call of a function return what ``change`` makes of its result, in place."""
    real = getattr(owner, name)

    def changed(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(owner, name, real)
        result = real(*args, **kwargs)
        change(result)
        return result

    monkeypatch.setattr(owner, name, changed)


def put(values: torch.Tensor, sick: Mapping[int, float]) -> None:
    """Write bad values into a column (N,) or, for each environment, a row of a tensor (N, ...)."""
    for index, value in sick.items():
        values[index] = value


def inject_action(env: Any, monkeypatch: pytest.MonkeyPatch, sick: Mapping[int, float]) -> Fault:
    return lambda actions: put(actions[:, 0], sick)


def inject_joint_velocity(env: Any, monkeypatch: pytest.MonkeyPatch, sick: Mapping[int, float]) -> Fault:
    def fault(actions: torch.Tensor) -> None:
        robot = next(iter(env.scene.articulations.values()))
        velocity = torch.tensor(list(sick.values()))[:, None].repeat(1, robot.num_joints)
        robot.write_joint_velocity_to_sim_index(velocity=velocity, env_ids=torch.tensor(list(sick), dtype=torch.int32))

    return fault
