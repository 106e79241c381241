# SPDX-License-Identifier: BSD-3-Clause
"""Measure the cost of another object in each environment, against the one cube of ``lift``.

Run ``python benchmarks/object_cost.py --num_envs 64 256 --shapes 0 1 16 96``. Each row is a process of its own that
builds the scene of ``lift``, with its cube (0 shapes) or with the first so many objects of the set ``train``, lets them
fall from just above their resting poses, and steps with the gripper held up: the median time of a step and of
its cloud, and the memory that the process holds in the end.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench_rays import read_again

STEPS = 60


def measure(num_envs: int, shapes: int, physics: str) -> dict[str, float]:
    """Measure one row in this process: seconds of the build, ms of a step, MiB in the end."""
    import gymnasium as gym
    import psutil
    import torch
    from isaaclab.app import launch_simulation
    from isaaclab_tasks.utils import load_cfg_from_registry

    import isaaclab_pc.tasks  # noqa: F401
    from isaaclab_pc.cli.task_names import resolve_task
    from isaaclab_pc.physics import apply_physics
    from isaaclab_pc.settings import PhysicsSettings

    task = resolve_task("lift")
    cfg: Any = load_cfg_from_registry(task, "env_cfg_entry_point")
    cfg.scene.num_envs, cfg.sim.device, cfg.seed = num_envs, "cpu", 0
    cfg.episode_length_s = 1000.0
    apply_physics(cfg, PhysicsSettings(backend=physics))  # pyright: ignore[reportArgumentType]
    with tempfile.TemporaryDirectory() as folder:
        if shapes > 0:
            hold_objects(cfg, shapes, physics, Path(folder))
        start = time.perf_counter()
        with launch_simulation(cfg, {"device": "cpu", "headless": True}):
            env: Any = gym.make(task, cfg=cfg).unwrapped
            built = time.perf_counter() - start
            env.reset(seed=0)
            if shapes > 0:
                put_down(env, load(Path(folder)))
            up = torch.zeros(num_envs, env.cfg.action_space)
            up[:, 2] = 1.0

            steps = []
            clouds = []
            for _ in range(STEPS):
                start = time.perf_counter()
                env.step(up)
                steps.append(time.perf_counter() - start)
                clouds.append(read_again(env.scene["points"]))
            height = env.cube_pos[:, 2]
            row = {
                "build_s": built,
                "step_ms": 1e3 * statistics.median(steps),
                "cloud_ms": 1e3 * statistics.median(clouds),
                "mib": psutil.Process().memory_info().rss / 2**20,
                "below_table": float((height < 0.0).float().mean()),
            }
            env.close()
    return row


def hold_objects(cfg: Any, shapes: int, physics: str, folder: Path) -> None:
    """Put the first ``shapes`` objects of the set in the place of the cube."""
    from isaaclab_pc.assets.objects.object_set import object_set_cfg
    from isaaclab_pc.assets.objects.sets import load_set

    for index, graspable in enumerate(load_set("train")[:shapes]):
        graspable.save(folder / f"{index:03d}.npz")
    is_newton = physics == "newton_mjwarp"
    cfg.scene.cube = object_set_cfg(str(folder), "{ENV_REGEX_NS}/Cube", padded=is_newton, label="cube")
    if is_newton:
        cfg.sim.physics.solver_cfg.use_mujoco_contacts = False
        cfg.sim.physics.solver_cfg.nconmax = 200
        cfg.sim.physics.solver_cfg.njmax = 700


def load(folder: Path) -> list[Any]:
    """Return the objects of a folder."""
    from isaaclab_pc.assets.objects.sets import load_set

    return load_set(str(folder))


def put_down(env: Any, objects: list[Any]) -> None:
    """Put each environment's object on the table, in its likeliest resting pose."""
    import numpy as np
    import torch

    from isaaclab_pc.assets.objects.object_set import dealt_objects
    from isaaclab_pc.envs import manipulation

    mine = [objects[index] for index in dealt_objects()]
    rests = [int(graspable.rest_chance.argmax()) for graspable in mine]
    quat = np.stack([graspable.rest_quat[rest] for graspable, rest in zip(mine, rests, strict=True)])
    height = [graspable.rest_height[rest] + 0.001 for graspable, rest in zip(mine, rests, strict=True)]
    position = torch.tensor([[0.5, 0.0, z] for z in height], dtype=torch.float32)
    ids = torch.arange(env.num_envs)
    manipulation.place(env, env.cube, ids, position, torch.tensor(quat, dtype=torch.float32))


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows in Markdown, with their ratios to the cube's; memory is the growth since fewer environments."""
    lines = [
        "| physics | envs | shapes | build [s] | step [ms] | of it the cloud [ms] | step, to the cube's | memory [MiB] "
        "| more for each env [KiB] | through the table |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        alike = [r for r in rows if r["physics"] == row["physics"]]
        cube = next(r for r in alike if r["shapes"] == 0 and r["num_envs"] == row["num_envs"])
        fewer = [r for r in alike if r["shapes"] == row["shapes"] and r["num_envs"] < row["num_envs"]]
        growth = [1024 * (row["mib"] - r["mib"]) / (row["num_envs"] - r["num_envs"]) for r in fewer]
        lines.append(
            f"| {row['physics']} | {row['num_envs']} | {row['shapes'] or 'cube'} | {row['build_s']:.1f} "
            f"| {row['step_ms']:.1f} | {row['cloud_ms']:.1f} | {row['step_ms'] / cube['step_ms']:.2f} "
            f"| {row['mib']:.0f} | {f'{growth[-1]:.0f}' if growth else ''} | {row['below_table']:.0%} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure each row in a process of its own, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--num_envs", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--shapes", type=int, nargs="+", default=[0, 1, 16, 96], help="0: the cube, always measured")
    parser.add_argument("--physics", nargs="+", default=["ovphysx", "newton_mjwarp"])
    parser.add_argument("--row", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.row:
        num_envs, shapes, physics = args.row.split(",")
        print(f"ROW {json.dumps(measure(int(num_envs), int(shapes), physics))}")
        return

    rows = []
    for physics in args.physics:
        for num_envs in args.num_envs:
            for shapes in dict.fromkeys([0, *args.shapes]):
                command = [sys.executable, __file__, "--row", f"{num_envs},{shapes},{physics}"]
                done = subprocess.run(command, capture_output=True, text=True)
                found = [line for line in done.stdout.splitlines() if line.startswith("ROW ")]
                if not found:
                    sys.exit(f"{physics}, {num_envs}, {shapes}: {done.stderr[-2000:]}")
                rows.append({"physics": physics, "num_envs": num_envs, "shapes": shapes})
                rows[-1] |= json.loads(found[0].removeprefix("ROW "))
                print(rows[-1], file=sys.stderr)
    print(f"{platform.processor() or platform.machine()}\n\n{table(rows)}")


if __name__ == "__main__":
    main()
