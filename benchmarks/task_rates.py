# SPDX-License-Identifier: BSD-3-Clause
"""Environment steps per second of every task, by what is observed and by the number of environments.

Run ``python benchmarks/task_rates.py --physics ovphysx``; one process measures one backend. ``--task lift --robot
franka my_panda`` compares robots. The actions are random and cover the full range. A rate is the number of environments
over the median duration of a step.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from typing import Any

import torch
import warp as wp
from rich.console import Console
from rich.table import Table

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.cli.task_names import our_tasks
from isaaclab_pc.run.platform import choose_platform
from isaaclab_pc.workers.random_actions import RandomActions
from isaaclab_pc.workers.resolve import resolve
from isaaclab_pc.workers.session import open_env

OBSERVATIONS = ("state", "depth", "points")
WARMUP_STEPS = 10
MIN_STEPS = 10


def measure(task: str, robot: str, obs: str, num_envs: int, args: argparse.Namespace) -> float:
    """Return environment steps per second."""
    settings = [
        f"task={task}",
        f"robot={robot}",
        f"obs={obs}",
        f"num_envs={num_envs}",
        f"physics={args.physics}",
        f"device={args.device}",
    ]
    resolved = resolve(choose_platform(compose(settings)), num_envs)

    durations: list[float] = []
    with open_env(resolved) as env, torch.inference_mode():
        env.reset(seed=0)
        env_any: Any = env.unwrapped
        actions = RandomActions(num_envs, env_any.single_action_space.shape[0], resolved.settings.device, seed=0)
        for _ in range(WARMUP_STEPS):
            env.step(actions())

        while len(durations) < MIN_STEPS or sum(durations) < args.seconds:
            start = time.perf_counter()
            env.step(actions())
            wp.synchronize()
            durations.append(time.perf_counter() - start)
    return num_envs / statistics.median(durations)


def main() -> None:
    """Measure all tasks and print one row for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--physics", default="auto", help="auto, ovphysx or newton_mjwarp")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--task", nargs="+", default=sorted(our_tasks()), help="names of tasks; all of them")
    parser.add_argument("--robot", nargs="+", default=["franka"], help="names or folders of robots")
    parser.add_argument("--obs", nargs="+", choices=OBSERVATIONS, default=OBSERVATIONS)
    parser.add_argument("--num_envs", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--seconds", type=float, default=5.0, help="of steps for each figure, 10 steps at least")
    args = parser.parse_args()

    console = Console(width=120)
    columns = [(obs, num_envs) for obs in args.obs for num_envs in args.num_envs]
    table = Table(title=f"environment steps/s, physics={args.physics}")
    for column in ("task", "robot", *(f"{obs} {num_envs}" for obs, num_envs in columns)):
        table.add_column(column, justify="right")
    for task, robot in itertools.product(args.task, args.robot):
        rates = []
        for obs, num_envs in columns:
            rates.append(f"{measure(task, robot, obs, num_envs, args):.0f}")
            console.print(f"{task} {robot} {obs} {num_envs}: {rates[-1]} environment steps/s")
        table.add_row(task, robot, *rates)
    console.print(table)


if __name__ == "__main__":
    main()
