# SPDX-License-Identifier: BSD-3-Clause
"""Measure one setting of physics: the scripted policy's success, and failures under random actions."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from isaaclab_pc.files import write_text_atomically
from isaaclab_pc.physics.stability import Cell
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.workers.contact_watch import contact_usage, dropped_contacts
from isaaclab_pc.workers.evaluation import evaluate
from isaaclab_pc.workers.random_actions import RandomActions
from isaaclab_pc.workers.resolve import resolve
from isaaclab_pc.workers.session import guard_counts, open_env

__all__ = ["measure"]

RANDOM_SECONDS = 30.0
"""How long a setting is run with random actions at most [s]."""

RANDOM_ENV_STEPS = 1_000_000
"""Environment steps with random actions at most."""

WARMUP_STEPS = 5
"""Steps that are not timed."""


def measure(settings: RunSettings, values: Mapping[str, int], result: Path) -> int:
    """Run the scripted policy and random actions under one setting.

    Args:
        settings: The run's settings, with a number of environments.
        values: Fields of ``physics`` to change; ``decimation`` stands for ``dt`` at the task's own control rate.
        result: Where the cell goes, before anything is closed.

    Returns:
        The exit code.

    Raises:
        ConfigError: The settings do not fit.
    """
    assert settings.num_envs != "auto"
    physics: dict[str, float] = dict(values)
    if "decimation" in physics:
        task = resolve(settings, settings.num_envs, "stability").env_cfg
        physics = {"dt": task.sim.dt * task.decimation / physics.pop("decimation"), **physics}

    changed = settings.with_values({f"physics.{name}": value for name, value in physics.items()})
    with open_env(resolve(changed, settings.num_envs, "stability")) as env:
        cell = _measure(env, settings, physics)
        write_text_atomically(result, json.dumps(asdict(cell)) + "\n")
    return 0


def _measure(env: Any, settings: RunSettings, physics: Mapping[str, float]) -> Cell:
    success = None
    episodes = 0
    scripted = getattr(env.unwrapped, "scripted_policy", None)
    if scripted is not None:
        policy = scripted()
        evaluation = evaluate(env, lambda _: policy(), settings.eval.episodes, settings.eval.seed)
        assert evaluation is not None, "nothing stops it"
        success = evaluation.success_rate
        episodes = evaluation.episodes

    before = guard_counts(env)
    env_steps, rate, cost = _run_random(env, settings.seed, settings.device)
    failures = {cause: count - before[cause] for cause, count in guard_counts(env).items()}

    usage = contact_usage(env)
    note = dropped_contacts(usage) if usage is not None else ""
    return Cell(physics, env_steps, failures, rate, cost, success, episodes, note)


def _run_random(env: Any, seed: int, device: str) -> tuple[int, float, float]:
    """Return environment steps, how many there were per second, and :attr:`Cell.cost`."""
    num_envs = env.unwrapped.num_envs
    actions = RandomActions(num_envs, env.unwrapped.single_action_space.shape[0], device, seed)
    most = max(WARMUP_STEPS + 1, RANDOM_ENV_STEPS // num_envs)

    steps = 0
    start = time.perf_counter()
    cpu_start = time.process_time()
    with torch.inference_mode():
        env.reset(seed=seed)
        while steps < most and (steps <= WARMUP_STEPS or time.perf_counter() - start < RANDOM_SECONDS):
            env.step(actions())
            steps += 1
            if steps == WARMUP_STEPS:
                start = _now(device)
                cpu_start = time.process_time()

    wall = _now(device) - start
    busy = wall if device.startswith("cuda") else time.process_time() - cpu_start
    timed = (steps - WARMUP_STEPS) * num_envs
    return steps * num_envs, timed / wall, 1000.0 * busy / timed


def _now(device: str) -> float:
    """Return the time, when the device has done what it was asked to [s]."""
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
    return time.perf_counter()
