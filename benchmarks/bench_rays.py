# SPDX-License-Identifier: BSD-3-Clause
"""Clouds by rays against clouds of rendered images, in the scenes of the tasks.

Run ``python benchmarks/bench_rays.py --tasks lift push --num_envs 64 --threads 1 --out FILE``. One process for each row
builds the task's scene once, with the task's cameras and the same ones as a thumbnail, plays 25 steps of the expert,
and lets the ways take turns: both with images and with rays, and the task's cameras with errors by rays. A cloud's time
holds the camera's pose, the update of the shapes' tree, rendering or rays, and sampling.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

TASKS = ("reach", "push", "lift", "stack", "peg_insert", "open_drawer", "turn_valve")
WAYS = ("thumbnail_image", "thumbnail_rays", "large_image", "large_rays", "large_errors")
THUMBNAIL = (64, 48, 128)
"""Columns, rows and points of what a CPU can afford to render."""
STEPS = 25


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Measure one task in this process; times are medians in ms, bytes are of one environment."""
    import gymnasium as gym
    import torch
    from isaaclab.app import launch_simulation
    from isaaclab_tasks.utils import load_cfg_from_registry

    import isaaclab_pc.tasks  # noqa: F401
    from isaaclab_pc.cli.task_names import resolve_task
    from isaaclab_pc.physics import apply_physics
    from isaaclab_pc.settings import PhysicsSettings

    torch.set_num_threads(args.threads)
    task = resolve_task(args.tasks[0])
    cfg: Any = load_cfg_from_registry(task, "env_cfg_entry_point")
    cfg.scene.num_envs, cfg.sim.device, cfg.seed = args.num_envs, "cpu", 0
    add_sensors(cfg.scene, args.points, args.errors)
    apply_physics(cfg, PhysicsSettings(backend=args.physics))
    with launch_simulation(cfg, {"device": "cpu", "headless": True}):
        env: Any = gym.make(task, cfg=cfg).unwrapped
        env.reset(seed=0)
        expert = env.expert()
        for _ in range(STEPS):
            env.step(expert())

        sensors = {way: env.scene[way] for way in WAYS}
        times: dict[str, list[float]] = {way: [] for way in WAYS}
        for turn in range(args.turns + 1):
            for way, sensor in sensors.items():
                if way == "large_image" and turn > 2:
                    continue
                seconds = read_again(sensor)
                if turn > 0:
                    times[way].append(seconds)
        row: dict[str, Any] = {"task": args.tasks[0], "num_envs": args.num_envs, "threads": args.threads}
        row["physics"] = args.physics
        for way, sensor in sensors.items():
            row[f"{way}_ms"] = statistics.median(times[way]) * 1e3
            row[f"{way}_bytes"] = sensor_bytes(sensor) / args.num_envs
            row[f"{way}_points"] = sensor.data.count.torch.float().median().item()
        env.close()
    return row


def add_sensors(scene: Any, num_points: int, errors: str) -> None:
    """Add each camera of the cloud once more for each way, and the clouds of all ways; changes the config."""
    from isaaclab.utils import replace

    from isaaclab_pc.sensors import stereo, structured_light

    points = scene.points
    for way in WAYS:
        is_image = way.endswith("image")
        names = [f"{way}_{name}" for name in points.cameras]
        count = num_points
        for name, own in zip(names, points.cameras, strict=True):
            camera = getattr(scene, own)
            width, height = camera.width, camera.height
            if way.startswith("thumbnail"):
                width, height, count = THUMBNAIL
            data_types = ["depth", "semantic_segmentation"] if is_image else []
            path = f"{camera.prim_path}_{way}"
            setattr(scene, name, replace(camera, prim_path=path, width=width, height=height, data_types=data_types))
        cloud = replace(points, cameras=names, num_points=count, source="image" if is_image else "rays")
        if way.endswith("errors"):
            cloud.realism = {"structured_light": structured_light, "stereo": stereo}[errors]()
        setattr(scene, way, replace(cloud, prim_path=f"{points.prim_path}_{way}"))


def read_again(sensor: Any) -> float:
    """Read a sensor and its cameras as in a new frame; returns the seconds that it took."""
    for part in (*sensor._cameras, sensor):
        part._is_outdated.fill_(True)
        part._data_dirty = True
    start = time.perf_counter()
    _ = sensor.data
    return time.perf_counter() - start


def sensor_bytes(sensor: Any) -> int:
    """Return the memory of a sensor, its cameras' images and what the renderer holds for them [bytes]."""
    from isaaclab_pc.sensors.scene_cameras import renderer_bytes
    from isaaclab_pc.tensors.tensor_bytes import tensor_bytes

    images = [[output.torch for output in camera.data.output.values()] for camera in sensor._cameras]
    return sensor.nbytes + tensor_bytes(images) + sum(map(renderer_bytes, sensor._cameras))


def table(rows: list[dict[str, Any]], args: argparse.Namespace) -> str:
    """Return the rows in Markdown."""
    small = f"{THUMBNAIL[0]} x {THUMBNAIL[1]}"
    lines = [
        f"| task | physics | envs | threads | {small} image, K = {THUMBNAIL[2]} [ms] | its rays [ms] | own image [ms] "
        f"| own rays, K = {args.points} [ms] | of the thumbnail | image / rays | rays with errors [ms] "
        "| rays [KiB an env] | image [KiB an env] | points |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        small_image, small_rays, image, rays, errors = (row[f"{way}_ms"] for way in WAYS)
        lines.append(
            f"| {row['task']} | {row['physics']} | {row['num_envs']} | {row['threads']} | {small_image:.1f} "
            f"| {small_rays:.1f} | {image:.0f} | {rays:.1f} | {rays / small_image:.2f} | {image / rays:.0f} "
            f"| {errors:.0f} | {row['large_rays_bytes'] / 1024:.1f} | {row['large_image_bytes'] / 1024:.0f} "
            f"| {row['large_rays_points']:.0f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure each row in a process of its own, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="+", default=TASKS, choices=TASKS)
    parser.add_argument("--num_envs", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--physics", default="ovphysx", choices=("ovphysx", "newton_mjwarp"))
    parser.add_argument("--points", type=int, default=512)
    parser.add_argument("--errors", default="structured_light", choices=("structured_light", "stereo"))
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--out", type=Path, help="file to append the table to")
    parser.add_argument("--row", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.row:
        print(f"ROW {json.dumps(measure(args))}")
        return

    rows = []
    for task in args.tasks:
        own = ["--row", "--tasks", task, "--num_envs", args.num_envs, "--threads", args.threads]
        own += ["--physics", args.physics, "--points", args.points, "--turns", args.turns]
        own += ["--errors", args.errors]
        done = subprocess.run([sys.executable, __file__, *map(str, own)], capture_output=True, text=True)
        found = [line for line in done.stdout.splitlines() if line.startswith("ROW ")]
        if not found:
            sys.exit(f"{task}: {done.stderr[-2000:]}")
        rows.append(json.loads(found[0].removeprefix("ROW ")))
        print(rows[-1], file=sys.stderr)

    text = f"{platform.processor() or platform.machine()}, {args.threads} threads\n\n{table(rows, args)}\n"
    print(text)
    if args.out is not None:
        with args.out.open("a", encoding="utf-8") as file:
            file.write(f"\n{text}")


if __name__ == "__main__":
    main()
