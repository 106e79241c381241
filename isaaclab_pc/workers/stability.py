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


def measure(job: StabilityJob, *_: object) -> int:
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
        task = resolve(settings, settings.num_envs, "stability").env_cfg
        physics = {"dt": task.sim.dt * task.decimation / decimation, **physics}

    changed = settings.with_values({f"physics.{name}": value for name, value in physics.items()})
    # The parent reads this where the simulator crashes.
    Cell(settings=physics, note=CRASHED).write(job.result)
    with open_env(resolve(changed, settings.num_envs, "stability")) as env:
        measured: dict[str, Any] = _run_expert(env, settings)
        before = guard_counts(env)
        measured |= _run_random_actions(env, settings.seed, settings.device)
        failures = {cause: count - before[cause] for cause, count in guard_counts(env).items()}
        note = dropped_contacts(contact_usage(env))
        Cell(settings=physics, failures=failures, note=note, **measured).write(job.result)
    return 0


def _run_expert(env: Any, settings: RunSettings) -> dict[str, Any]:
    """Return success and episodes of the task's expert, as fields of the cell; nothing where it has none."""
    if not hasattr(env.unwrapped, "expert"):
        return {}
    policy = env.unwrapped.expert()
    evaluation = evaluate(env, lambda _: policy(), settings.eval.episodes, settings.eval.seed)
    assert evaluation is not None
    return {"success": evaluation.success_rate, "episodes": evaluation.episodes}


def _run_random_actions(env: Any, seed: int, device: str) -> dict[str, Any]:
    """Return steps, speed and cost under random actions, as fields of the cell."""
    num_envs = env.unwrapped.num_envs
    actions = RandomActions(num_envs, env.unwrapped.single_action_space.shape[0], device, seed)
    most_steps = max(WARMUP_STEPS + 1, RANDOM_ENV_STEPS // num_envs) - WARMUP_STEPS

    with torch.inference_mode():
        env.reset(seed=seed)
        for _ in range(WARMUP_STEPS):
            env.step(actions())
        start = _synchronized_time(device)
        cpu_start = time.process_time()
        timed = 0
        while timed < most_steps and (timed == 0 or time.perf_counter() - start < RANDOM_SECONDS):
            env.step(actions())
            timed += 1

    wall_seconds = _synchronized_time(device) - start
    busy_seconds = wall_seconds if device.startswith("cuda") else time.process_time() - cpu_start
    return {
        "env_steps": (WARMUP_STEPS + timed) * num_envs,
        "env_steps_per_s": timed * num_envs / wall_seconds,
        "cost": 1000.0 * busy_seconds / (timed * num_envs),
    }


def _synchronized_time(device: str) -> float:
    """Return the time at which the device has finished all queued work [s]."""
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
    return time.perf_counter()
