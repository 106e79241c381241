# SPDX-License-Identifier: BSD-3-Clause
"""What the guard and its recorder cost: their own time in a step over the whole step's.

Run ``python benchmarks/bench_guard.py --physics ovphysx``; one process measures one backend. Timed is all of the
guard's code, in the guard and in the environment, around each of its calls, and apart from it the recorder of the last
steps. Reading the physics state for the first time after a step is neither's: the task needs the same numbers. A share
is the median over the steps of what each step spent, so that other jobs on the machine matter little.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
import warp as wp
from isaaclab.app import launch_simulation
from isaaclab_tasks.utils import load_cfg_from_registry
from rich.console import Console
from rich.table import Table

import isaaclab_pc.tasks  # noqa: F401
from isaaclab_pc.cli.task_names import resolve_task
from isaaclab_pc.faults.recorder import Recorder
from isaaclab_pc.physics import apply_physics
from isaaclab_pc.settings import PhysicsSettings
from isaaclab_pc.settings.physics import Backend

WARM_UP = 20


class Stopwatch:
    """Sums up the time in the outermost of the wrapped calls."""

    def __init__(self, device: str) -> None:
        """Start at 0.

        Args:
            device: On CUDA a call ends when the device has done what it asked for.
        """
        self.seconds = 0.0
        self._finish = wp.synchronize if device.startswith("cuda") else lambda: None
        self._depth = 0

    def wrap(self, owner: Any, name: str, before: Callable[[], None] = lambda: None) -> None:
        """Time a method of an object; ``before`` runs ahead of it, and its time does not count."""
        method = getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            before()
            self._finish()
            start = time.perf_counter()
            self._depth += 1
            try:
                return method(*args, **kwargs)
            finally:
                self._finish()
                self._depth -= 1
                if self._depth == 0:
                    self.seconds += time.perf_counter() - start

        setattr(owner, name, timed)


def guard_calls(env: Any) -> Iterator[tuple[Any, str]]:
    """Yield owner and name of everything that the guard does in a step, but for the check of the physics state."""
    for name in ("begin_step", "check_dones", "check_reward", "on_reset", "check_depth", "check_observations"):
        yield env.step_guard, name
    for name in ("end_by_observation", "reset_later", "end_step", "log"):
        yield env.step_guard, name
    yield env, "_handle_bad_observations"


def read_state(env: Any) -> None:
    """Read what the check of the physics state and the task need."""
    for asset in env.scene.articulations.values():
        _ = asset.data.joint_pos, asset.data.joint_vel
    for asset in env.scene.rigid_objects.values():
        _ = asset.data.root_link_pose_w, asset.data.root_com_vel_w


def watch_guard(env: Any, watch: Stopwatch) -> None:
    """Time everything that the guard does in a step."""
    for owner, name in guard_calls(env):
        watch.wrap(owner, name)
    watch.wrap(env.scene_state, "check", lambda: read_state(env))


def attach_recorder(env: Any, watch: Stopwatch, folder: Path) -> None:
    """Record the last steps, as a training run does, and time it."""

    class TimedRecorder(Recorder):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            for name in ("before_step", "after_targets", "after_step"):
                watch.wrap(self, name)
            watch.wrap(self, "after_physics", lambda: read_state(env))

    TimedRecorder.attach(env, folder, {})


def measure(task: str, obs: str, physics: Backend, mode: str, device: str, num_envs: int, steps: int) -> list[str]:
    """Return the medians of a step and of the guard's and the recorder's part [ms], with their shares, as text."""
    cfg: Any = load_cfg_from_registry(task, "env_cfg_entry_point")
    cfg.scene.num_envs = num_envs
    cfg.sim.device = device
    cfg.seed = 0
    cfg.guard.mode = mode
    cfg.obs = obs
    apply_physics(cfg, PhysicsSettings(backend=physics))

    with launch_simulation(cfg, {"device": device, "headless": True}):
        env: Any = gym.make(task, cfg=cfg).unwrapped
        try:
            guard_watch = Stopwatch(device)
            recorder_watch = Stopwatch(device)
            watch_guard(env, guard_watch)
            with tempfile.TemporaryDirectory() as folder:
                attach_recorder(env, recorder_watch, Path(folder))
                env.reset(seed=0)
                watches = (guard_watch, recorder_watch)
                samples = [_step(env, watches, device) for _ in range(WARM_UP + steps)][WARM_UP:]
        finally:
            env.close()

    whole, *parts = (list(column) for column in zip(*samples, strict=True))
    row = [f"{statistics.median(whole):.1f}"]
    for part in parts:
        share = statistics.median(own / step for own, step in zip(part, whole, strict=True))
        row += [f"{statistics.median(part):.2f}", f"{100 * share:.2f} %"]
    return row


def _step(env: Any, watches: tuple[Stopwatch, ...], device: str) -> list[float]:
    """Take a step; return its time and that of each watch in it [ms]."""
    actions = torch.rand(env.num_envs, env.cfg.action_space, device=device) * 2 - 1
    for watch in watches:
        watch.seconds = 0.0

    start = time.perf_counter()
    env.step(actions)
    wp.synchronize()
    return [1e3 * (time.perf_counter() - start), *(1e3 * watch.seconds for watch in watches)]


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
    task = resolve_task(args.task)

    load = os.getloadavg()[0]
    table = Table(title=f"{args.task}, {args.physics}, {args.device}; load average at the start {load:.1f}")
    for column in ("obs", "envs", "mode", "step [ms]", "guard [ms]", "share", "recorder [ms]", "share"):
        table.add_column(column, justify="right")
    for obs in args.obs:
        for num_envs in args.num_envs:
            for mode in ("quarantine", "disabled"):
                row = measure(task, obs, args.physics, mode, args.device, num_envs, args.steps)
                table.add_row(obs, str(num_envs), mode, *row)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
