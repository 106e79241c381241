# SPDX-License-Identifier: BSD-3-Clause
"""What the encoders of clouds cost on a CPU, and what they see in the clouds of a real task.

``cost``: CPU time per 1000 clouds, and peak of the tensors of a batch of 1000, of a forward pass without gradients and
of a forward and backward pass, with ``precision`` float32 and bf16. The encoders take turns, so what runs beside them
meets all alike; medians.

``sees``: each learns from the same clouds of resets, for the same number of gradient steps, to tell where the cube of
``lift`` is (and its yaw, up to a quarter turn) or the hole of ``peg_insert``; errors are medians on resets unseen.

    python benchmarks/compare_encoders.py cost
    python benchmarks/compare_encoders.py sees --task lift peg_insert
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor, nn

# As a script, it does not find its neighbours otherwise.
sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.memory_peak import MemoryPeak
from isaaclab_pc.agents import ppo
from isaaclab_pc.agents.networks import make_mlp
from isaaclab_pc.agents.point_encoders import make_point_encoder
from isaaclab_pc.agents.precision import autocast
from isaaclab_pc.settings.points import PointEncoder

KINDS = get_args(PointEncoder)
SETTINGS = ppo.DEFAULT.encoder
BATCH = 250
"""Clouds of a pass that is timed."""
NUM_ENVS = 64
MINIBATCH = 64
UNIT_M = 0.1
"""Positions are learned in this unit."""


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("cost", "sees"))
    parser.add_argument("--points", type=int, nargs="+", default=[64, 256], help="points per cloud, for cost")
    parser.add_argument("--repeats", type=int, default=7, help="passes of each encoder, for cost")
    parser.add_argument("--task", nargs="+", choices=sorted(TARGETS), default=sorted(TARGETS), help="for sees")
    parser.add_argument("--resets", type=int, default=32, help=f"of {NUM_ENVS} environments; a quarter is held out")
    parser.add_argument("--steps", type=int, default=300, help=f"gradient steps on {MINIBATCH} clouds, for sees")
    args = parser.parse_args()

    torch.set_num_threads(1)
    if args.what == "cost":
        print("| points | encoder | `precision` | infer [ms] | train [ms] | infer [MB] | train [MB] |")
        print("|---|---|---|---|---|---|---|")
        for points in args.points:
            print_costs(points, args.repeats)
        return

    print("| task | encoder | median error of the position [mm] | median error of the yaw [deg] |")
    print("|---|---|---|---|")
    for task in args.task:
        print_errors(task, args.resets, args.steps)


def make(kind: str, channels: int = 3) -> nn.Module:
    """Make an encoder of the default agent's size, the same weights at each call."""
    torch.manual_seed(0)
    frequencies = SETTINGS.point_frequencies
    return make_point_encoder(
        kind, channels, SETTINGS.point_channels, scale=SETTINGS.point_scale, frequencies=frequencies
    )


def print_costs(points: int, repeats: int) -> None:
    """Measure all encoders on clouds of so many points; print a row for each and each arithmetic."""
    clouds = (torch.rand(1000, points, 3) * 0.4).half()
    few = clouds[:BATCH]
    variants = [(kind, precision) for kind in KINDS for precision in ("float32", "bf16")]
    passes = {variant: (infer_pass(*variant, few), train_pass(*variant, few)) for variant in variants}

    times: dict[Any, tuple[list[float], list[float]]] = {variant: ([], []) for variant in variants}
    for repeat in range(repeats + 1):
        for variant in variants:
            for call, found in zip(passes[variant], times[variant], strict=True):
                start = time.process_time()
                call()
                if repeat > 0:  # the first one warms up
                    found.append(time.process_time() - start)

    for kind, precision in variants:
        milliseconds = [1e6 * statistics.median(found) / BATCH for found in times[kind, precision]]
        calls = (infer_pass(kind, precision, clouds), train_pass(kind, precision, clouds))
        megabytes = [peak_bytes(call) / 1e6 for call in calls]
        numbers = " | ".join(f"{value:.1f}" for value in (*milliseconds, *megabytes))
        print(f"| {points} | {kind} | {precision} | {numbers} |", flush=True)


def infer_pass(kind: str, precision: str, clouds: Tensor) -> Callable[[], None]:
    """Return a forward pass as a rollout makes it."""
    net = make(kind)

    def infer() -> None:
        with torch.no_grad(), autocast("cpu", precision):
            net(clouds)

    return infer


def train_pass(kind: str, precision: str, clouds: Tensor) -> Callable[[], None]:
    """Return a forward and backward pass."""
    net = make(kind)

    def train() -> None:
        with autocast("cpu", precision):
            loss = net(clouds).float().square().sum()
        loss.backward()

    return train


def peak_bytes(call: Callable[[], None]) -> int:
    """Return the most memory that tensors of a call take at once."""
    with MemoryPeak() as peak:
        call()
    return peak.bytes


def print_errors(task: str, resets: int, steps: int) -> None:
    """Train all encoders on the same clouds of a task and print a row for each."""
    clouds, targets = collect(task, resets)
    held_out = len(clouds) // 4
    train, test = slice(held_out, None), slice(held_out)
    baseline = (targets[test] - targets[train].mean(dim=0))[:, :3].norm(dim=1).median() * UNIT_M * 1e3
    print(f"| {task} | none: always the mean | {baseline:.1f} | |", flush=True)

    for kind in KINDS:
        predict = learn(kind, clouds[train], targets[train], steps)
        with torch.no_grad():
            found = predict(clouds[test])
        position = (found - targets[test])[:, :3].norm(dim=1).median() * UNIT_M * 1e3
        yaw = f"{yaw_error(found, targets[test]):.1f}" if targets.shape[1] > 3 else ""
        print(f"| {task} | {kind} | {position:.1f} | {yaw} |", flush=True)


def learn(kind: str, clouds: Tensor, targets: Tensor, steps: int) -> nn.Module:
    """Train an encoder with a head of the size of the default policy; the minibatches of all encoders are the same."""
    encoder = make(kind, clouds.shape[2])
    head = make_mlp(SETTINGS.point_channels[-1], ppo.DEFAULT.actor_hidden, targets.shape[1])
    model = nn.Sequential(encoder, head)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        batch = torch.randint(len(clouds), (MINIBATCH,), generator=generator)
        loss = (model(clouds[batch]) - targets[batch]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def yaw_error(found: Tensor, targets: Tensor) -> float:
    """Return the median error [deg] of yaws given as cosine and sine of four times the angle."""
    angles = [torch.atan2(values[:, 4], values[:, 3]) for values in (found, targets)]
    difference = torch.remainder(angles[0] - angles[1] + math.pi, 2.0 * math.pi) - math.pi
    return math.degrees(float(difference.abs().median()) / 4.0)


def collect(task: str, resets: int) -> tuple[Tensor, Tensor]:
    """Reset a task again and again.

    Args:
        task: Name of the task.
        resets: How often.

    Returns:
        Clouds (B, K, C), float16, and what is to be told of them, (B, 3 or 5).
    """
    from isaaclab_pc.cli.compose import compose
    from isaaclab_pc.run.platform import choose_platform
    from isaaclab_pc.workers.resolve import resolve
    from isaaclab_pc.workers.session import open_env

    settings = choose_platform(compose([f"task={task}", "device=cpu", f"num_envs={NUM_ENVS}"]))
    clouds, targets = [], []
    with open_env(resolve(settings, NUM_ENVS)) as env, torch.no_grad():
        for _ in range(resets):
            obs = env.reset()[0]
            clouds.append(obs["points"].clone())
            targets.append(TARGETS[task](env.unwrapped).clone())
    return torch.cat(clouds), torch.cat(targets)


def cube(env: Any) -> Tensor:
    """Return the cube's position, and cosine and sine of four times its yaw: a quarter turn looks alike."""
    x, y, z, w = env.cube_quat.unbind(dim=1)
    yaw = 4.0 * torch.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
    return torch.cat([env.cube_pos / UNIT_M, yaw.cos()[:, None], yaw.sin()[:, None]], dim=1)


def hole(env: Any) -> Tensor:
    """Return the position of the hole."""
    return env.hole_pos / UNIT_M


TARGETS: dict[str, Callable[[Any], Tensor]] = {"lift": cube, "peg_insert": hole}


if __name__ == "__main__":
    main()
