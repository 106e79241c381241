# SPDX-License-Identifier: BSD-3-Clause
"""One measurement on a GPU, in a process of its own; ``benchmarks/gpu.py`` runs them all.

    python benchmarks/gpu_measure.py operator --num_envs 4096
    python benchmarks/gpu_measure.py rate --task lift --obs state --num_envs 1024

Prints a JSON object on its last line. ``operator``, ``encoder`` and ``out_of_memory`` need no Isaac Lab. With
``--device cpu`` everything runs too, to try the program.
"""

from __future__ import annotations

import argparse
import collections
import json
import statistics
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[1]
IMAGE = 64
"""Height and width of the operator's depth images [px]."""
NUM_POINTS = 512
ENVIRONMENTS = 4096
CLOUD = 64
"""Points of the encoder's clouds, as ``reach`` has them."""
WARM_UP = 20
"""Steps or calls that are not counted."""


def operator(args: argparse.Namespace) -> dict[str, Any]:
    """Time the samplers against a copy of the same depth images."""
    from isaaclab_pc.sensors import DepthToCloud
    from isaaclab_pc.sensors.cloud_checks import SAMPLERS

    n, device = args.num_envs, args.device
    depth = 0.5 + torch.rand(n, 1, IMAGE, IMAGE, device=device)
    matrix = torch.tensor([[60.0, 0.0, IMAGE / 2], [0.0, 60.0, IMAGE / 2], [0.0, 0.0, 1.0]], device=device)
    camera: dict[str, Any] = {
        "intrinsics": matrix.expand(n, 1, 3, 3),
        "camera_pos": torch.zeros(n, 1, 3, device=device),
        "camera_quat": torch.tensor([0.0, 0.0, 0.0, 1.0], device=device).expand(n, 1, 4),
        "keys": torch.arange(n, dtype=torch.int32, device=device),
    }

    copy_ms = median_ms(lambda: depth.clone(), args)
    # A copy reads and writes the images; the operator reads them and writes float16 points.
    floor_ms = copy_ms * (1.0 + NUM_POINTS * 3 * 2 / (IMAGE * IMAGE * 4)) / 2.0
    result: dict[str, Any] = {"num_envs": n, "copy_ms": copy_ms, "floor_ms": floor_ms}
    for sampler in SAMPLERS:
        # Half of the pixels are outside the crop.
        make = DepthToCloud(
            n,
            [(IMAGE, IMAGE)],
            NUM_POINTS,
            sampler=sampler,
            crop_lower=(-2.0, -2.0, 0.5),
            crop_upper=(2.0, 2.0, 1.0),
            device=device,
        )
        ms = median_ms(lambda make=make: make(depth, **camera), args)
        result[f"{sampler}_ms"] = ms
        result[f"{sampler}_share_of_bandwidth"] = floor_ms / ms
    return result


def encoder(args: argparse.Namespace) -> dict[str, Any]:
    """Time a large agent's encoder on a minibatch of its own, in float32, TF32 and bfloat16."""
    from isaaclab_pc.agents import distill, ppo
    from isaaclab_pc.agents.networks import ObservationEncoder

    sizes = ppo.sizes(ppo.DEFAULT) if args.agent == "ppo" else distill.distill_sizes(distill.DEFAULT)
    agent = sizes["large"]
    count = args.num_envs or agent.minibatch_size
    clouds = {"points": torch.rand(count, CLOUD, 3, device=args.device).half()}

    result: dict[str, Any] = {"clouds": count, "frequencies": len(agent.encoder.point_frequencies)}
    for name in ("float32", "tf32", "bfloat16"):
        # What bfloat16 leaves in float32 is TF32 in a training, too.
        torch.backends.cuda.matmul.allow_tf32 = name != "float32"
        settings = replace(agent.encoder, precision="bf16" if name == "bfloat16" else "float32")
        net = ObservationEncoder({"points": (CLOUD, 3)}, settings).to(args.device)

        def infer(net: ObservationEncoder = net) -> None:
            with torch.no_grad():
                net(clouds)

        def train(net: ObservationEncoder = net) -> None:
            net(clouds)[0].sum().backward()

        result[f"{name}_infer_ms"] = median_ms(infer, args)
        result[f"{name}_train_ms"] = median_ms(train, args)
    return result


def first_step(args: argparse.Namespace) -> dict[str, Any]:
    """Take one step; the time since the process began is what a user waits for."""
    import psutil

    with environment(args) as env:
        env.step(random_actions(env))
        wait(args.device)
        return {"seconds": time.time() - psutil.Process().create_time()}


def rate(args: argparse.Namespace) -> dict[str, Any]:
    """Count environment steps per second, and how much of the time the GPU is busy."""
    with environment(args) as env:
        for _ in range(WARM_UP):
            env.step(random_actions(env))
        wait(args.device)

        start = time.perf_counter()
        busy = []
        for _ in range(args.steps):
            env.step(random_actions(env))
            busy.append(utilization(args.device))
        wait(args.device)
        seconds = time.perf_counter() - start

    known = [share for share in busy if share is not None]
    return {
        "obs": args.obs,
        "image": args.image,
        "physics": args.physics,
        "num_envs": args.num_envs,
        "env_steps_per_s": args.num_envs * args.steps / seconds,
        "gpu_busy": statistics.mean(known) if known else None,
    }


def syncs(args: argparse.Namespace) -> dict[str, Any]:
    """Count where the host waits for the GPU during steps, by file and line of the innermost frame."""
    with environment(args) as env:
        for _ in range(WARM_UP):
            env.step(random_actions(env))

        places: collections.Counter[str] = collections.Counter()

        def count(message: Warning | str, *_: Any, **__: Any) -> None:
            if "synchronizing CUDA operation" in str(message):
                places[place_of_warning()] += 1

        mode = torch.cuda.get_sync_debug_mode() if args.device != "cpu" else 0
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = count
            if args.device != "cpu":
                torch.cuda.set_sync_debug_mode("warn")
            for _ in range(args.steps):
                env.step(random_actions(env))
            if args.device != "cpu":
                torch.cuda.set_sync_debug_mode(mode)
    per_step = {place: number / args.steps for place, number in places.most_common()}
    return {"per_step": sum(per_step.values()), **per_step}


def place_of_warning() -> str:
    """Return folder, file and line of what warns; for use in ``warnings.showwarning``."""
    frames = [
        frame
        for frame in traceback.extract_stack()[:-2]
        if "/torch/" not in frame.filename and Path(frame.filename).name != "warnings.py"
    ]
    file = Path(frames[-1].filename)
    return f"{file.parent.name}/{file.name}:{frames[-1].lineno}"


def out_of_memory(args: argparse.Namespace) -> dict[str, Any]:
    """Run out of memory in a child and tell whether its exit is recognized as that."""
    from isaaclab_pc.num_envs.classify import classify_exit
    from isaaclab_pc.num_envs.trial import Outcome

    code = f"import torch; torch.empty(1 << 50, dtype=torch.uint8, device={args.device!r})"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    outcome, detail = classify_exit(child.returncode, child.stdout + child.stderr)
    if outcome is not Outcome.OOM:
        raise SystemExit(f"taken for {outcome.value}: {child.stderr}")
    return {"outcome": outcome.value, "detail": detail}


def meter(args: argparse.Namespace) -> dict[str, Any]:
    """Let a child take a GiB with torch, and tell who knows of it, and how much its context takes."""
    from isaaclab_pc.num_envs.gpu import Gpu

    size = 1 << 30
    code = (
        f"import torch; block = torch.ones({size}, dtype=torch.uint8, device={args.device!r}); "
        "torch.cuda.synchronize(); print('up', flush=True); input()"
    )
    gpu = Gpu(args.device)
    gpu.start()
    program = [sys.executable, "-c", code]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        child.stdout.readline()
        gpu.sample([child.pid])
        grown = gpu.growth()
        child.kill()
    use = gpu.finish()
    return {
        "meter": use.meter,
        "metered_gib": use.peak / 2**30,
        "context_gib": (use.peak - size) / 2**30,
        "others_gib": use.others / 2**30,
        "metered_of_known": use.peak / (grown - use.others),
    }


@contextmanager
def environment(args: argparse.Namespace) -> Iterator[Any]:
    """Build a task's environment, and close it."""
    import gymnasium as gym
    from isaaclab.app import launch_simulation
    from isaaclab_tasks.utils import load_cfg_from_registry

    import isaaclab_pc.tasks  # noqa: F401
    from isaaclab_pc.cli.task_names import resolve_task
    from isaaclab_pc.physics import apply_physics
    from isaaclab_pc.settings import PhysicsSettings

    task = resolve_task(args.task)
    cfg: Any = load_cfg_from_registry(task, "env_cfg_entry_point")
    cfg.scene.num_envs = args.num_envs
    cfg.sim.device = args.device
    cfg.obs = args.obs
    cfg.seed = 0
    if args.image is not None:
        camera, points = cfg.scene.camera, cfg.scene.points
        points.source = "image"
        camera.width, camera.height, points.num_points = args.image
    apply_physics(cfg, PhysicsSettings(backend=args.physics))
    with launch_simulation(cfg, {"device": args.device, "headless": True}):
        env: Any = gym.make(task, cfg=cfg).unwrapped
        try:
            env.reset(seed=0)
            yield env
        finally:
            env.close()


def random_actions(env: Any) -> torch.Tensor:
    """Draw actions over the full range."""
    return torch.rand(env.num_envs, env.cfg.action_space, device=env.device) * 2 - 1


def median_ms(call: Callable[[], Any], args: argparse.Namespace) -> float:
    """Return the median time of a call [ms], after a warm-up."""
    for _ in range(3):
        call()
    times = []
    for _ in range(args.steps):
        wait(args.device)
        start = time.perf_counter()
        call()
        wait(args.device)
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)


def wait(device: str) -> None:
    """Wait until a GPU has done its work."""
    if device != "cpu":
        torch.cuda.synchronize(device)


def utilization(device: str) -> float | None:
    """Return the share of the last moments in which the GPU was busy; None where that cannot be told."""
    if device == "cpu":
        return None
    try:
        return torch.cuda.utilization(device) / 100.0
    except Exception:  # NVML's own errors, or no pynvml: the rate counts without it.
        return None


MEASUREMENTS = {
    function.__name__: function for function in (operator, encoder, first_step, rate, syncs, out_of_memory, meter)
}


def main() -> None:
    """Run one measurement and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measurement", choices=MEASUREMENTS)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--task", default="lift")
    parser.add_argument("--obs", default="points")
    parser.add_argument("--physics", default="auto", help="auto, ovphysx or newton_mjwarp")
    parser.add_argument("--image", type=int, nargs=3, metavar=("W", "H", "K"), help="K points of rendered W x H images")
    parser.add_argument("--agent", choices=("ppo", "distill"), default="ppo", help="whose encoder")
    parser.add_argument("--num_envs", type=int, help="environments (4096), or clouds (a minibatch of the agent)")
    parser.add_argument("--steps", type=int, default=100, help="steps or calls that are counted")
    args = parser.parse_args()
    if args.num_envs is None and args.measurement != "encoder":
        args.num_envs = ENVIRONMENTS

    result = MEASUREMENTS[args.measurement](args)
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
