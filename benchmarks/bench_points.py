# SPDX-License-Identifier: BSD-3-Clause
"""Depth images to clouds of K points: time, memory and coverage of this project's operator and of its peers.

    python benchmarks/bench_points.py --out benchmarks/results/points.md

Time is the median of single calls after a warm-up. All methods take turns of at least 20 ms in one process, so that a
busy machine slows all alike; the best call is shown as well. The pure torch farthest-point loop runs once, on at most
64 environments, and is scaled by their number, as it does the same work for each.

Peak extra memory is the growth of the process while a method is built and called after a warm-up, output included
(median of five): the kernel's high-water mark of resident memory, reset before (/proc/self/clear_refs, Linux only), in
a process of one thread that returns blocks of 64 KiB and more at once. On a GPU it is torch's peak; peers that run on
the CPU show none.

The floor is the time to read the depth once and write the float16 points once, at the bandwidth at which torch copies
the same depth images (bytes read plus bytes written), which small ones reach in the cache.

Coverage is the distance from every valid point to the nearest sample, over up to 16 environments. It also checks that
each method's points lie on the surface. Our voxel and fps choose among 4 K random points, the peers among all.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import gc
import importlib.metadata
import json
import multiprocessing
import os
import platform
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Threads are set in the environment before a process imports torch or Open3D, so nothing imports them here.
if TYPE_CHECKING:
    from peers import Scene
    from torch import Tensor

SIZES = ((64, 64, 64, 512), (256, 64, 64, 512), (1024, 64, 64, 512), (64, 128, 128, 1024))
PACKAGES = ("isaaclab", "torch", "warp-lang", "open3d", "fpsample", "numpy")
SAMPLERS = ("random", "grid", "voxel", "fps")

COPY = "copy of the depth"
BATCHED = "Isaac Lab batched"
TORCH_FPS = "torch farthest point"
OPEN3D_VOXEL = "Open3D voxel, per env"
FPSAMPLE = "fpsample, points given"
CPU_PEERS = ("Open3D", "fpsample")
TARGETS = (
    ("random", BATCHED, 10.0),
    ("grid", BATCHED, 10.0),
    ("voxel", OPEN3D_VOXEL, 10.0),
    ("fps", TORCH_FPS, 40.0),
    ("fps", FPSAMPLE, 1.0),
    ("fps", "fpsample, whole chain", 1.0),
)
"""Sampler, peer, and how many times as fast as the peer it should be."""

MEMORY_TARGET = 10.0
"""How many times less memory than :data:`BATCHED` every sampler should take."""

SLOW_ENVS = 64
"""Environments of the peer that is too slow for more."""

TURN_S = 0.02
"""How long a method is called in a row [s]."""

BUDGET_S = 10.0
"""Time after which a method gets no more turns [s]."""

COVERED_ENVS = 16
"""Environments of which coverage is measured."""


def main() -> None:
    """Measure all sizes and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=parse_size, nargs="+", default=list(SIZES), metavar="N,H,W,K")
    parser.add_argument("--threads", type=int, nargs="+", default=[1], help="several give one set of tables each")
    parser.add_argument("--device", default="cpu", help="of this project's and of torch's methods")
    parser.add_argument("--rounds", type=int, default=9, help="turns of each method")
    parser.add_argument("--voxel_size", type=float, default=0.04, help="edge of a voxel [m]")
    parser.add_argument("--no_memory", action="store_true", help="leave out the memory")
    parser.add_argument("--out", type=Path, nargs="+", default=[], help="files to write: .md, .json or both")
    args = parser.parse_args()
    for path in args.out:
        if path.suffix not in (".md", ".json"):
            parser.error(f"--out {path}: expected a name that ends in .md or .json")

    tested = machine(args.device)
    settings = {"device": args.device, "rounds": args.rounds, "voxel_size": args.voxel_size}
    memory: dict[tuple[int, ...], dict[str, int | None]] = {}
    if not args.no_memory:
        allocator = {"MALLOC_MMAP_THRESHOLD_": str(1 << 16), "MALLOC_TRIM_THRESHOLD_": str(1 << 16)}
        for size in args.sizes:
            print(f"measuring memory of {title(size)}", file=sys.stderr)
            memory[size] = in_process(1, allocator, functools.partial(measure_memory, size, settings))

    runs = []
    for threads in args.threads:
        print(f"measuring time on {threads} threads", file=sys.stderr)
        runs += in_process(threads, {}, functools.partial(measure_times, args.sizes, threads, settings))
    for run in runs:
        for name, extra in memory.get(tuple(run["size"]), {}).items():
            run["methods"][name]["extra_bytes"] = extra

    record = {"machine": tested, "command": command(), "settings": settings, "runs": runs}
    text = report(record)
    print(text)
    for path in args.out:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if path.suffix == ".md" else json.dumps(record, indent=1) + "\n", encoding="utf-8")


def parse_size(text: str) -> tuple[int, ...]:
    """Parse "N,H,W,K"."""
    size = tuple(int(part) for part in text.split(","))
    if len(size) != 4 or min(size) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected four positive numbers N,H,W,K")
    return size


def in_process(threads: int, environment: dict[str, str], function: Callable[[], Any]) -> Any:
    """Return what a function returns in a fresh process with so many threads and these environment variables."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    os.environ.update(dict.fromkeys(names, str(threads)), **environment)
    try:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            return pool.submit(function).result()
    finally:
        for name in environment:
            del os.environ[name]


def make_methods(scene: Scene, fps_height: int) -> dict[str, Callable[[Scene], Callable[[], Tensor]]]:
    """Return what builds each method for a scene, by name."""
    import peers

    def plain(function: Callable[[Scene], Tensor]) -> Callable[[Scene], Callable[[], Tensor]]:
        return lambda scene: functools.partial(function, scene)

    return {
        COPY: peers.copy_depth,
        BATCHED: plain(peers.isaaclab_batched),
        "Isaac Lab batched, multinomial": plain(peers.isaaclab_multinomial),
        "Isaac Lab per env": plain(peers.isaaclab_per_env),
        "Open3D random, per env": peers.open3d_random,
        OPEN3D_VOXEL: peers.open3d_voxel,
        "Open3D farthest point, per env": peers.open3d_fps,
        TORCH_FPS: plain(peers.torch_fps),
        FPSAMPLE: lambda scene: peers.fpsample_given(scene, fps_height),
        "fpsample, whole chain": lambda scene: peers.fpsample_chain(scene, fps_height),
        **{sampler: functools.partial(peers.ours, sampler=sampler) for sampler in SAMPLERS},
    }


def measure_times(sizes: list[tuple[int, ...]], threads: int, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Time all methods at all sizes, in this process."""
    import torch

    torch.set_num_threads(threads)
    return [{"threads": threads} | measure_size(size, settings) for size in sizes]


def measure_size(size: tuple[int, ...], settings: dict[str, Any]) -> dict[str, Any]:
    """Time all methods at one size and measure their coverage."""
    import peers

    num_envs, height, width, num_points = size
    scene = peers.make_scene(*size, voxel_size=settings["voxel_size"], device=settings["device"])
    valid = [scene.valid_points(env) for env in range(min(num_envs, COVERED_ENVS))]
    if min(map(len, valid)) < num_points:
        raise SystemExit(f"N,H,W,K={','.join(map(str, size))}: only {min(map(len, valid))} valid pixels, K is more")

    bucket_height = fastest_height(scene)
    builders = make_methods(scene, bucket_height)
    small = scene.first(SLOW_ENVS)

    # The first call of each: it compiles kernels, gives the cloud to check, and is the only one of the slow loop.
    calls = {}
    methods = {}
    for name, build in builders.items():
        call = build(small if name == TORCH_FPS else scene)
        envs = small.depth.shape[0] if name == TORCH_FPS else num_envs
        start = time.perf_counter()
        cloud = call()
        wait(settings["device"])
        first = time.perf_counter() - start
        methods[name] = {"envs": envs, "times": [first] if name == TORCH_FPS else []}
        if name != TORCH_FPS:
            calls[name] = call
        if name != COPY:
            slack = scene.voxel_size * 3**0.5 if name == OPEN3D_VOXEL else 1e-3
            methods[name] |= coverage(name, cloud, valid, slack)

    for _ in range(settings["rounds"]):
        for name, call in calls.items():
            if sum(methods[name]["times"]) < BUDGET_S:
                methods[name]["times"] += turn(call, settings["device"])

    for method in methods.values():
        times = [seconds * num_envs / method["envs"] for seconds in method.pop("times")]
        method |= {"ms": 1e3 * statistics.median(times), "best_ms": 1e3 * min(times), "calls": len(times)}

    share = sum(map(len, valid)) / (len(valid) * height * width)
    return {"size": size, "valid_share": share, "fpsample_height": bucket_height, "methods": methods}


def turn(call: Callable[[], Tensor], device: str) -> list[float]:
    """Return the times of single calls [s], of as many as a turn lasts."""
    times = []
    while sum(times) < TURN_S:
        start = time.perf_counter()
        call()
        wait(device)
        times.append(time.perf_counter() - start)
    return times


def wait(device: str) -> None:
    """Wait until a GPU has done its work."""
    import torch

    if device != "cpu":
        torch.cuda.synchronize(device)


def fastest_height(scene: Scene) -> int:
    """Return the height of fpsample's tree that is fastest for clouds like these."""
    import peers

    few = scene.first(8)
    return min((3, 4, 5, 6, 7), key=lambda height: min(turn(peers.fpsample_given(few, height), "cpu")))


def coverage(name: str, cloud: Tensor, valid: list[Any], slack: float) -> dict[str, float]:
    """Return the mean and largest distance from valid points to samples [mm]; refuse samples off the surface."""
    import numpy as np
    from scipy.spatial import KDTree

    distances = []
    for samples, points in zip(cloud.double().cpu().numpy(), valid, strict=False):
        off = KDTree(points).query(samples)[0].max()
        if not off <= slack:
            raise SystemExit(f"{name}: a sample lies {off:.4f} m off the surface, more than {slack:.4f} m")
        distances.append(KDTree(samples).query(points)[0])
    together = np.concatenate(distances)
    return {"mean_mm": 1e3 * float(together.mean()), "max_mm": 1e3 * float(together.max())}


def measure_memory(size: tuple[int, ...], settings: dict[str, Any]) -> dict[str, int | None]:
    """Return the peak extra memory of each method [B] at one size, in this process; None if there is no telling."""
    import peers
    import torch

    torch.set_num_threads(1)
    device = settings["device"]
    scene = peers.make_scene(*size, voxel_size=settings["voxel_size"], device=device)
    # The loop's memory does not depend on how often it runs.
    short = dataclasses.replace(scene, num_points=8)

    extra: dict[str, int | None] = {}
    for name, build in make_methods(scene, 5).items():
        if name == FPSAMPLE or (device != "cpu" and name.startswith(CPU_PEERS)):
            extra[name] = None
            continue
        build_and_call = functools.partial(
            lambda build, scene: build(scene)(), build, short if name == TORCH_FPS else scene
        )
        build_and_call()
        extra[name] = statistics.median_low(peak_extra(build_and_call, device) for _ in range(5))
    return extra


def peak_extra(call: Callable[[], Tensor], device: str) -> int:
    """Return how much more memory is in use at the peak of a call than before it [B]."""
    import ctypes

    import torch

    gc.collect()
    if device != "cpu":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        call()
        return torch.cuda.max_memory_allocated(device) - before

    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    result = call()
    peak = resident("VmHWM")
    del result
    return peak - before


def resident(key: str) -> int:
    """Return a figure of this process's resident memory [B]."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith(key))


def machine(device: str) -> dict[str, str]:
    """Return what was measured on and with."""
    cpu = platform.processor()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), cpu)
    packages = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    load = f"{os.getloadavg()[0]:.1f} processes were running before"
    return {"cpu": f"{cpu}, {os.cpu_count()} cores", "load": load, "device": device, "versions": packages}


def command() -> str:
    """Return how this was called."""
    return "python benchmarks/bench_points.py " + shlex.join(sys.argv[1:])


def report(record: dict[str, Any]) -> str:
    """Return all tables as markdown."""
    runs = record["runs"]
    info = record["machine"]
    lines = [
        "# Depth images to point clouds",
        "",
        f"{info['cpu']}; {info['load']}; device {info['device']}; {info['versions']}.",
        "",
    ]
    lines += [f"    {record['command']}", "", __doc__.split("\n\n", 2)[2].strip() if __doc__ else "", ""]
    for threads in dict.fromkeys(run["threads"] for run in runs):
        of_threads = [run for run in runs if run["threads"] == threads]
        lines += targets_table(threads, of_threads)
        for run in of_threads:
            lines += size_table(run)
    if len({run["threads"] for run in runs}) > 1:
        lines += scaling_table(runs)
    return "\n".join(lines)


def title(size: Sequence[int]) -> str:
    """Return a size as text."""
    return f"{size[0]} envs, {size[1]} x {size[2]}, K = {size[3]}"


def size_table(run: dict[str, Any]) -> list[str]:
    """Return the table of one size."""
    num_envs, height, width, num_points = run["size"]
    depth_bytes = 4 * num_envs * height * width
    batched = run["methods"][BATCHED]["ms"]
    copy = run["methods"][COPY]["ms"]
    bandwidth = 2 * depth_bytes / (1e-3 * copy)
    floor_ms = 1e3 * (depth_bytes + 6 * num_envs * num_points) / bandwidth

    lines = [
        f"## {title(run['size'])}; {run['threads']} thread{'s' if run['threads'] > 1 else ''}",
        "",
        f"{100 * run['valid_share']:.0f} % of the pixels are inside the crop. Depth: {depth_bytes / 2**20:.1f} MiB. "
        f"Floor: {floor_ms:.2f} ms at {bandwidth / 1e9:.1f} GB/s. fpsample: h = {run['fpsample_height']}.",
        "",
        "| method | time [ms] | best [ms] | times as fast as batched | share of floor [%] | extra memory [MiB] |"
        " of the depth | mean gap [mm] | largest gap [mm] |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]

    for name, method in run["methods"].items():
        label = f"**ours, {name}**" if name in SAMPLERS else name
        if method["envs"] != num_envs:
            label += f" ({method['envs']} envs, scaled)"
        extra = method.get("extra_bytes")
        cells = [
            f"{method['ms']:.2f}",
            f"{method['best_ms']:.2f}",
            f"{batched / method['ms']:.1f}",
            f"{100 * floor_ms / method['ms']:.1f}",
            "" if extra is None else f"{extra / 2**20:.2f}",
            "" if extra is None else f"{extra / depth_bytes:.2f}",
            f"{method['mean_mm']:.1f}" if "mean_mm" in method else "",
            f"{method['max_mm']:.0f}" if "max_mm" in method else "",
        ]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return [*lines, ""]


def targets_table(threads: int, runs: list[dict[str, Any]]) -> list[str]:
    """Return how many times better ours is than what each target names, at every size."""
    lines = [
        f"## Targets; {threads} thread{'s' if threads > 1 else ''}",
        "",
        "Times as fast, of the best calls in brackets, or as small in memory; * is below the target.",
        "",
        "| | target | " + " | ".join(title(run["size"]) for run in runs) + " |",
        "|---|---:|" + "---:|" * len(runs),
    ]

    def row(label: str, target: float, cells: list[str]) -> None:
        lines.append(f"| {label} | {target:.0f} | {' | '.join(cells)} |")

    def cell(ratio: float, target: float, best: str = "") -> str:
        return f"{ratio:.1f}{best}{'' if ratio >= target else ' *'}"

    for sampler, peer, target in TARGETS:
        pairs = [(run["methods"][peer], run["methods"][sampler]) for run in runs]
        cells = [
            cell(theirs["ms"] / own["ms"], target, f" ({theirs['best_ms'] / own['best_ms']:.1f})")
            for theirs, own in pairs
        ]
        row(f"time: {sampler} against {peer}", target, cells)

    for sampler in SAMPLERS:
        extras = [[run["methods"][name].get("extra_bytes") for name in (BATCHED, sampler)] for run in runs]
        cells = ["" if None in pair else cell(pair[0] / max(pair[1], 1), MEMORY_TARGET) for pair in extras]
        row(f"memory: {sampler} against {BATCHED}", MEMORY_TARGET, cells)
    return [*lines, ""]


def scaling_table(runs: list[dict[str, Any]]) -> list[str]:
    """Return how many times faster ours is on more threads than on the fewest."""
    fewest = min(run["threads"] for run in runs)
    base = {tuple(run["size"]): run for run in runs if run["threads"] == fewest}
    lines = [
        "## More threads",
        "",
        f"Times as fast as on {fewest}.",
        "",
        "| threads | size | " + " | ".join((*SAMPLERS, BATCHED)) + " |",
        "|---:|---|" + "---:|" * (len(SAMPLERS) + 1),
    ]
    for run in runs:
        if run["threads"] != fewest:
            before = base[tuple(run["size"])]["methods"]
            cells = [f"{before[name]['ms'] / run['methods'][name]['ms']:.2f}" for name in (*SAMPLERS, BATCHED)]
            lines.append(f"| {run['threads']} | {title(run['size'])} | {' | '.join(cells)} |")
    return [*lines, ""]


if __name__ == "__main__":
    main()
