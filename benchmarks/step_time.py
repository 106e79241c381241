# SPDX-License-Identifier: BSD-3-Clause
"""Where the time of an environment step goes: physics, render, cloud, guard and the rest.

Run ``python benchmarks/step_time.py --num_envs 64 256 --physics ovphysx``; one process measures all sizes of one
backend. Every phase is timed around the code that runs it; on a GPU each measurement waits for the device, so the sum
is more than an undisturbed step takes.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import torch
import warp as wp
from bench_guard import guard_calls, read_state
from isaaclab.app import launch_simulation
from isaaclab.sensors import Camera
from isaaclab_tasks.utils import load_cfg_from_registry
from rich.console import Console
from rich.table import Table

import isaaclab_pc.tasks  # noqa: F401
from isaaclab_pc.cli.task_names import resolve_task
from isaaclab_pc.physics import apply_physics
from isaaclab_pc.settings import PhysicsSettings
from isaaclab_pc.settings.physics import Backend

PHASES = ("physics", "render", "cloud", "guard", "rest")


class PhaseTimer:
    """Sums up the time spent in wrapped calls, each phase without the phases nested in it."""

    def __init__(self) -> None:
        """Start with no time in any phase."""
        self.seconds: dict[str, float] = defaultdict(float)
        self._stack: list[str] = []
        self._since = time.perf_counter()

    def wrap(self, phase: str, function: Callable) -> Callable:
        """Return ``function`` with its own time added to ``phase``."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            self._switch()
            self._stack.append(phase)
            try:
                return function(*args, **kwargs)
            finally:
                self._switch()
                self._stack.pop()

        return timed

    def _switch(self) -> None:
        wp.synchronize()
        now = time.perf_counter()
        if self._stack:
            self.seconds[self._stack[-1]] += now - self._since
        self._since = now


def instrument(env: Any, timer: PhaseTimer) -> None:
    """Wrap the parts of an environment that make up its step."""
    env.sim.step = timer.wrap("physics", env.sim.step)
    env.scene.write_data_to_sim = timer.wrap("physics", env.scene.write_data_to_sim)
    env.scene.update = timer.wrap("physics", env.scene.update)
    for owner, name in guard_calls(env):
        setattr(owner, name, timer.wrap("guard", getattr(owner, name)))
    check_state = timer.wrap("guard", env.scene_state.check)

    def check_what_was_read() -> None:
        read_state(env)
        check_state()

    env.scene_state.check = check_what_was_read
    env.point_cloud._update_buffers_impl = timer.wrap("cloud", env.point_cloud._update_buffers_impl)
    env.step = timer.wrap("rest", env.step)


def measure(task: str, physics: Backend, device: str, num_envs: int, steps: int) -> dict[str, float]:
    """Return the median duration of each phase of a step [ms], after a warm-up of 20 steps."""
    cfg: Any = load_cfg_from_registry(task, "env_cfg_entry_point")
    cfg.scene.num_envs = num_envs
    cfg.sim.device = device
    cfg.seed = 0
    apply_physics(cfg, PhysicsSettings(backend=physics))

    with launch_simulation(cfg, {"device": device, "headless": True}):
        env: Any = gym.make(task, cfg=cfg).unwrapped
        timer = PhaseTimer()
        instrument(env, timer)
        # Rendering happens where the camera's data is read, a property of the class.
        camera: Any = Camera
        render = camera.data
        camera.data = property(timer.wrap("render", render.fget))

        try:
            env.reset(seed=0)
            samples: dict[str, list[float]] = defaultdict(list)
            for step in range(steps + 20):
                timer.seconds.clear()
                env.step(torch.rand(num_envs, env.cfg.action_space, device=device) * 2 - 1)
                if step >= 20:
                    for phase in PHASES:
                        samples[phase].append(1e3 * timer.seconds[phase])
        finally:
            camera.data = render
            env.close()
    return {phase: statistics.median(samples[phase]) for phase in PHASES}


def main() -> None:
    """Measure and print one row per number of environments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="reach")
    parser.add_argument("--physics", default="auto", help="auto, ovphysx or newton_mjwarp")
    parser.add_argument("--device", default="cuda:0" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--num_envs", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--steps", type=int, default=100)
    args = parser.parse_args()
    task = resolve_task(args.task)

    table = Table(title=f"{args.task}, physics={args.physics}, {args.device} ({platform.processor()}): ms per env step")
    for column in ("envs", *PHASES, "step", "env steps/s"):
        table.add_column(column, justify="right")
    for num_envs in args.num_envs:
        row = measure(task, args.physics, args.device, num_envs, args.steps)
        total = sum(row.values())
        cells = [f"{row[phase]:.2f}" for phase in PHASES]
        table.add_row(str(num_envs), *cells, f"{total:.1f}", f"{num_envs / total * 1e3:.0f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
