# SPDX-License-Identifier: BSD-3-Clause
"""Measure one setting of physics: the expert's success, and failures under random actions."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

from isaaclab_pc.physics.stability import CRASHED, Cell
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.workers.contact_watch import contact_usage, dropped_contacts
from isaaclab_pc.workers.evaluation import evaluate
from isaaclab_pc.workers.random_actions import RandomActions
from isaaclab_pc.workers.resolve import resolve
from isaaclab_pc.workers.session import guard_counts, open_env

__all__ = ["measure"]

RANDOM_SECONDS = 30.0
"""Longest time that a setting is run with random actions [s]."""

RANDOM_ENV_STEPS = 1_000_000
"""Most environment steps with random actions."""

WARMUP_STEPS = 5
"""Steps that are not timed."""


def measure(settings: RunSettings, values: Mapping[str, int], result: Path) -> int:
    """Run the expert and random actions under one setting.

    Args:
        settings: The run's settings, with a number of environments.
        values: Fields of ``physics`` to change; ``decimation`` stands for ``dt`` at the task's own control rate.
        result: Where the :class:`Cell` goes, before anything is closed.

    Returns:
        The exit code.

    Raises:
        ConfigError: The settings do not fit.
    """
    assert settings.num_envs != "auto"
    physics: dict[str, float] = dict(values)
    decimation = physics.pop("decimation", None)
    if decimation is not None:
        task = resolve(settings, settings.num_envs, "stability").env_cfg
        physics = {"dt": task.sim.dt * task.decimation / decimation, **physics}

    changed = settings.with_values({f"physics.{name}": value for name, value in physics.items()})
    # Where the simulator crashes, this is what is known.
    Cell(settings=physics, note=CRASHED).write(result)
    with open_env(resolve(changed, settings.num_envs, "stability")) as env:
        _measure(env, settings, physics).write(result)
    return 0


def _measure(env: Any, settings: RunSettings, physics: Mapping[str, float]) -> Cell:
    success = None
    episodes = 0
    make_expert = getattr(env.unwrapped, "expert", None)
    if make_expert is not None:
        policy = make_expert()
        evaluation = evaluate(env, lambda _: policy(), settings.eval.episodes, settings.eval.seed)
        assert evaluation is not None, "an evaluation without `stopped` runs to its end"
        success = evaluation.success_rate
        episodes = evaluation.episodes

    failures_before = guard_counts(env)
    speed = _run_random_actions(env, settings.seed, settings.device)
    failures = {cause: count - failures_before[cause] for cause, count in guard_counts(env).items()}

    usage = contact_usage(env)
    return Cell(
        settings=physics,
        env_steps=speed.env_steps,
        failures=failures,
        env_steps_per_s=speed.env_steps_per_s,
        cost=speed.cost,
        success=success,
        episodes=episodes,
        note=dropped_contacts(usage) if usage is not None else "",
    )


class _Speed(NamedTuple):
    """How fast a setting ran; the fields are those of :class:`Cell`."""

    env_steps: int
    env_steps_per_s: float
    cost: float


def _run_random_actions(env: Any, seed: int, device: str) -> _Speed:
    num_envs = env.unwrapped.num_envs
    actions = RandomActions(num_envs, env.unwrapped.single_action_space.shape[0], device, seed)
    most_steps = max(WARMUP_STEPS + 1, RANDOM_ENV_STEPS // num_envs)

    steps = 0
    start = time.perf_counter()
    cpu_start = time.process_time()
    with torch.inference_mode():
        env.reset(seed=seed)
        while steps < most_steps and (steps <= WARMUP_STEPS or time.perf_counter() - start < RANDOM_SECONDS):
            env.step(actions())
            steps += 1
            if steps == WARMUP_STEPS:
                start = _synchronized_time(device)
                cpu_start = time.process_time()

    wall_seconds = _synchronized_time(device) - start
    cpu_seconds = time.process_time() - cpu_start
    timed_env_steps = (steps - WARMUP_STEPS) * num_envs

    busy_seconds = wall_seconds if device.startswith("cuda") else cpu_seconds
    return _Speed(
        env_steps=steps * num_envs,
        env_steps_per_s=timed_env_steps / wall_seconds,
        cost=1000.0 * busy_seconds / timed_env_steps,
    )


def _synchronized_time(device: str) -> float:
    """Return the time at which the device has finished all work that was queued [s]."""
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
    return time.perf_counter()
