# SPDX-License-Identifier: BSD-3-Clause
"""Measure one setting of physics: the expert's success, and failures under random actions."""

import time
from typing import Any

import torch

from isaaclab_pc.physics.stability import CRASHED, Cell
from isaaclab_pc.run.jobs import StabilityJob
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.workers.contact_watch import contact_usage, dropped_contacts
from isaaclab_pc.workers.evaluation import evaluate
from isaaclab_pc.workers.random_actions import RandomActions
from isaaclab_pc.workers.resolve import resolve
from isaaclab_pc.workers.session import guard_counts, open_env

RANDOM_SECONDS = 30.0
"""Longest time that a setting is run with random actions [s]."""

RANDOM_ENV_STEPS = 1_000_000
"""Most environment steps with random actions."""

WARMUP_STEPS = 5
"""Steps that are not timed."""


def stability(job: StabilityJob, *_: object) -> int:
    """Run the expert and random actions under one setting, and write the :class:`Cell` before anything is closed.

    Of the values to change, ``decimation`` stands for ``dt`` at the task's own control rate.

    Raises:
        ConfigError: The settings do not fit.
    """
    settings = job.settings
    assert settings.num_envs != "auto"
    physics: dict[str, float] = dict(job.values)
    decimation = physics.pop("decimation", None)
    if decimation is not None:
        task = resolve(settings, settings.num_envs).env_cfg
        physics = {"dt": task.sim.dt * task.decimation / decimation, **physics}

    changed = settings.with_values({f"physics.{name}": value for name, value in physics.items()})
    # The parent reads this where the simulator crashes.
    Cell(settings=physics, note=CRASHED).write(job.result)
    with open_env(resolve(changed, settings.num_envs)) as env:
        success = _expert_success(env, settings)
        before = sum(guard_counts(env).values())
        env_steps, cost = _run_random_actions(env, settings.seed, settings.device)
        failures = sum(guard_counts(env).values()) - before
        note = dropped_contacts(contact_usage(env))
        Cell(physics, env_steps, failures, cost, success, note).write(job.result)
    return 0


def _expert_success(env: Any, settings: RunSettings) -> float | None:
    if not hasattr(env.unwrapped, "expert"):
        return None
    policy = env.unwrapped.expert()
    evaluation = evaluate(env, lambda _: policy(), settings.eval.episodes, settings.eval.seed)
    assert evaluation is not None
    return evaluation.success_rate


def _run_random_actions(env: Any, seed: int, device: str) -> tuple[int, float]:
    """Return the environment steps under random actions, and the cost of 1000 of them."""
    num_envs = env.unwrapped.num_envs
    actions = RandomActions(num_envs, env.unwrapped.single_action_space.shape[0], device, seed)
    steps = max(WARMUP_STEPS + 1, RANDOM_ENV_STEPS // num_envs)

    with torch.inference_mode():
        env.reset(seed=seed)
        for _ in range(WARMUP_STEPS):
            env.step(actions())
        start = _busy_seconds(device)
        give_up = time.monotonic() + RANDOM_SECONDS
        for step in range(WARMUP_STEPS + 1, steps + 1):
            env.step(actions())
            if time.monotonic() > give_up:
                steps = step
                break
    cost = 1000.0 * (_busy_seconds(device) - start) / ((steps - WARMUP_STEPS) * num_envs)
    return steps * num_envs, cost


def _busy_seconds(device: str) -> float:
    """Return the time when a GPU has done all queued work, or the CPU time of this process [s]."""
    if not device.startswith("cuda"):
        return time.process_time()
    torch.cuda.synchronize(device)
    return time.perf_counter()
