# SPDX-License-Identifier: BSD-3-Clause
"""What the guard costs: its own time in a step over the whole step's.

Run ``python benchmarks/bench_guard.py --physics ovphysx``; one process measures one backend. Timed is all of the
guard's code, in the guard and in the environment, around each of its calls. Reading the physics state for the first
time after a step is not the guard's: the task needs the same numbers.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import torch
import warp as wp
from isaaclab.app import launch_simulation
from isaaclab_tasks.utils import load_cfg_from_registry
from rich.console import Console
from rich.table import Table

import isaaclab_pc.tasks  # noqa: F401
from isaaclab_pc.physics import PhysicsSettings, apply_physics
from isaaclab_pc.workflows.registry import resolve_task

WARM_UP = 20


class Stopwatch:
    """Sums up the time in the outermost of the wrapped calls."""

    def __init__(self) -> None:
        """Start at 0."""
        self.seconds = 0.0
        self.calls = 0
        self._depth = 0

    def wrap(self, owner: Any, name: str, before: Callable[[], None] = lambda: None) -> None:
        """Time a method of an object; ``before`` runs ahead of it, and its time does not count."""
        method = getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            before()
            wp.synchronize()
            start = time.perf_counter()
            self._depth += 1
            try:
                return method(*args, **kwargs)
            finally:
                wp.synchronize()
                self._depth -= 1
                self.calls += 1
                if self._depth == 0:
                    self.seconds += time.perf_counter() - start

        setattr(owner, name, timed)


def watch_guard(env: Any, watch: Stopwatch) -> None:
    """Time everything that the guard does in a step."""

    def read_state() -> None:
        for asset in env.scene.articulations.values():
            _ = asset.data.joint_pos, asset.data.joint_vel
        for asset in env.scene.rigid_objects.values():
            _ = asset.data.root_link_pose_w, asset.data.root_com_vel_w

    for name in ("_reset_late", "_guard_outcome", "_guard_reward", "_guard_observations"):
        watch.wrap(env, name)
    for name in ("begin_step", "check_actions", "check", "end_step", "forget", "log"):
        watch.wrap(env.guard, name)
    watch.wrap(env.scene_state, "check", read_state)


def measure(task: str, obs: str, physics: str, mode: str, device: str, num_envs: int, steps: int) -> tuple[float, ...]:
    """Return the medians of a step and of the guard's part of it [ms], and its calls per step."""
    cfg: Any = load_cfg_from_registry(task, "env_cfg_entry_point")
    cfg.scene.num_envs, cfg.sim.device, cfg.seed = num_envs, device, 0
    cfg.guard.mode, cfg.obs = mode, obs
    apply_physics(cfg, PhysicsSettings(backend=physics))
    with launch_simulation(cfg, {"device": device, "headless": True}):
        env: Any = gym.make(task, cfg=cfg).unwrapped
        try:
            watch = Stopwatch()
            watch_guard(env, watch)
            env.reset(seed=0)
            whole, own = [], []
            for step in range(WARM_UP + steps):
                actions = torch.rand(num_envs, env.cfg.action_space, device=device) * 2 - 1
                watch.seconds = 0.0
                if step == WARM_UP:
                    watch.calls = 0
                start = time.perf_counter()
                env.step(actions)
                wp.synchronize()
                whole.append(1e3 * (time.perf_counter() - start))
                own.append(1e3 * watch.seconds)
        finally:
            env.close()
    return statistics.median(whole[WARM_UP:]), statistics.median(own[WARM_UP:]), watch.calls / steps


def main() -> None:
    """Measure and print one row per observation, mode and number of environments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="lift")
    parser.add_argument("--physics", default="auto", help="auto, ovphysx or newton_mjwarp")
    parser.add_argument("--device", default="cuda:0" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--obs", nargs="+", default=["points", "state"])
    parser.add_argument("--num_envs", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--steps", type=int, default=100)
    args = parser.parse_args()
    task, _ = resolve_task(args.task)

    load = os.getloadavg()[0]
    table = Table(title=f"{args.task}, {args.physics}, {args.device}; load average at the start {load:.1f}")
    for column in ("obs", "envs", "mode", "step [ms]", "guard [ms]", "share", "calls per step"):
        table.add_column(column, justify="right")
    for obs in args.obs:
        for num_envs in args.num_envs:
            for mode in ("quarantine", "disabled"):
                step, own, calls = measure(task, obs, args.physics, mode, args.device, num_envs, args.steps)
                table.add_row(
                    obs, str(num_envs), mode, f"{step:.1f}", f"{own:.3f}", f"{100 * own / step:.2f} %", f"{calls:.0f}"
                )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
