# SPDX-License-Identifier: BSD-3-Clause
"""The child that measures one setting of physics: ``python -m isaaclab_pc.workers.stability CONFIG``.

Exit codes: 0; 2 where the user's settings are wrong; 130 and 143 after SIGINT and SIGTERM; 1 otherwise.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from isaaclab_pc.launch.child_process import die_with_parent, exit_code_of
from isaaclab_pc.launch.compose import load_config
from isaaclab_pc.output_filter import divert_output
from isaaclab_pc.physics.stability import Cell

RANDOM_SECONDS = 30.0
"""How long a setting is run with random actions at most [s]."""

RANDOM_ENV_STEPS = 1_000_000
"""Environment steps with random actions at most."""

WARMUP_STEPS = 5
"""Steps that are not timed."""


def main(argv: Sequence[str]) -> int:
    """Measure one setting and write the :class:`Cell`.

    Args:
        argv: Arguments without the program's name.

    Returns:
        The exit code.
    """
    parser = argparse.ArgumentParser(description="Internal: scripts/scale.py --stability starts it.")
    parser.add_argument("config", type=Path)
    parser.add_argument("--settings", type=json.loads, required=True)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--result", type=Path, required=True)
    args = parser.parse_args(argv)
    die_with_parent()
    user = divert_output(args.log, user=2)

    def work() -> int:
        measure(load_config(args.config), args.settings, args.result)
        return 0

    try:
        return exit_code_of(work, refuse=lambda message: user.write(f"error: {message}\n"))
    finally:
        user.flush()


def measure(config: Mapping[str, Any], settings: Mapping[str, int], result: Path) -> None:
    """Run the scripted policy and random actions under one setting.

    Args:
        config: The run's plain config, with a number of environments.
        settings: Fields of ``physics`` to change; ``decimation`` stands for ``dt`` at the task's own control rate.
        result: Where the cell goes, before anything is closed.

    Raises:
        ConfigError: The settings do not fit.
    """
    from isaaclab_pc.workers.session import open_env, resolve

    changed = copy.deepcopy(dict(config))
    values: dict[str, float] = dict(settings)
    if "decimation" in values:
        task = resolve(config, config["num_envs"], "stability").env_cfg
        values = {"dt": task.sim.dt * task.decimation / values.pop("decimation"), **values}
    changed["physics"].update(values)
    resolved = resolve(changed, config["num_envs"], "stability")

    with open_env(resolved) as env:
        cell = _measure(env, config, values, resolved.device)
        result.write_text(json.dumps(asdict(cell)) + "\n", encoding="utf-8")


def _measure(env: Any, config: Mapping[str, Any], values: Mapping[str, float], device: str) -> Cell:
    from isaaclab_pc.workers.contact_watch import contact_usage, dropped_contacts
    from isaaclab_pc.workers.evaluation import evaluate
    from isaaclab_pc.workers.probe import guard_counts

    success, episodes = None, 0
    scripted = getattr(env.unwrapped, "scripted_policy", None)
    if scripted is not None:
        policy = scripted()
        evaluation = evaluate(env, lambda _: policy(), **config["eval"])
        assert evaluation is not None, "nothing stops it"
        success, episodes = evaluation.success_rate, evaluation.episodes
    before = guard_counts(env)
    env_steps, rate, cost = _run_random(env, config["seed"], device)
    failures = {cause: count - before[cause] for cause, count in guard_counts(env).items()}
    usage = contact_usage(env)
    note = dropped_contacts(usage) if usage is not None else ""
    return Cell(values, env_steps, failures, rate, cost, success, episodes, note)


def _run_random(env: Any, seed: int, device: str) -> tuple[int, float, float]:
    """Return environment steps, how many there were per second, and :attr:`Cell.cost`."""
    import torch

    from isaaclab_pc.workers.random_actions import RandomActions

    num_envs = env.unwrapped.num_envs
    actions = RandomActions(num_envs, env.unwrapped.single_action_space.shape[0], device, seed)
    most = max(WARMUP_STEPS + 1, RANDOM_ENV_STEPS // num_envs)
    steps, start, cpu_start = 0, time.perf_counter(), time.process_time()
    with torch.inference_mode():
        env.reset(seed=seed)
        while steps < most and (steps <= WARMUP_STEPS or time.perf_counter() - start < RANDOM_SECONDS):
            env.step(actions())
            steps += 1
            if steps == WARMUP_STEPS:
                start, cpu_start = _now(device), time.process_time()
    wall = _now(device) - start
    busy = wall if device.startswith("cuda") else time.process_time() - cpu_start
    timed = (steps - WARMUP_STEPS) * num_envs
    return steps * num_envs, timed / wall, 1000.0 * busy / timed


def _now(device: str) -> float:
    """Return the time, when the device has done what it was asked to [s]."""
    if device.startswith("cuda"):
        import torch

        torch.cuda.synchronize(device)
    return time.perf_counter()


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Simulators' own threads and exit handlers can hang or crash here, with everything written and closed.
    os._exit(code)
