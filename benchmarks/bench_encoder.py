# SPDX-License-Identifier: BSD-3-Clause
"""What the point-cloud encoder costs on a CPU: CPU time per 1000 clouds, by layers and number of points.

``infer`` is a rollout's forward pass, ``train`` a forward and backward pass of ``PointNet``, ``dense`` the same of the
textbook formulation, and ``error`` the distance at which a policy-sized head locates a sphere of 4 cm radius after 300
gradient steps on 1024 clouds.

    python benchmarks/bench_encoder.py
"""

import argparse
import time
from collections.abc import Callable

import torch
from torch import Tensor

from isaaclab_pc.agents.networks import make_mlp
from isaaclab_pc.agents.point_encoders import PointNet

LAYERS = ((32, 64), (64, 64), (32, 64, 64), (64, 128), (64, 128, 256))
BATCH = 1024
STEPS = 300
SPAN_M = (0.3, 0.4, 0.3)
RADIUS_M = 0.04


def main() -> None:
    """Print one row for each encoder and number of points."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, nargs="+", default=[64, 128, 256], help="points per cloud")
    parser.add_argument("--threads", type=int, default=1, help="threads; one is steadiest on a busy machine")
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    print("| points | layers | parameters | infer [ms/1k] | train [ms/1k] | dense [ms/1k] | error [cm] |")
    print("|---|---|---|---|---|---|---|")
    for points in args.points:
        for layers in LAYERS:
            encoder = PointNet(3, layers, scale=4.0)
            size = sum(parameter.numel() for parameter in encoder.parameters())
            times = " | ".join(f"{value:.0f}" for value in measure(encoder, points))
            name = "-".join(map(str, layers))
            print(f"| {points} | {name} | {size} | {times} | {100.0 * locate(layers, points):.1f} |", flush=True)


def measure(encoder: PointNet, points: int) -> tuple[float, float, float]:
    """Return the CPU time of inference, training and dense training [ms per 1000 clouds]."""
    clouds, _ = spheres(points)
    dense = encoder.dense()

    def infer() -> None:
        with torch.no_grad():
            encoder(clouds)

    def train() -> None:
        encoder(clouds).sum().backward()

    def train_dense() -> None:
        dense(clouds).sum().backward()

    return best_ms(infer), best_ms(train), best_ms(train_dense)


def best_ms(call: Callable[[], None], repeats: int = 5) -> float:
    """Return the least CPU time of a call on a batch [ms per 1000 clouds]."""
    call()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times) * 1e6 / BATCH


def locate(layers: tuple[int, ...], points: int) -> float:
    """Train an encoder to locate spheres and return its mean error on new ones [m]."""
    torch.manual_seed(0)
    encoder = PointNet(3, layers, scale=4.0)
    head = make_mlp(layers[-1], (128, 64), 3)
    optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=1e-3)
    for _ in range(STEPS):
        clouds, centres = spheres(points)
        loss = (head(encoder(clouds)) - centres / 0.2).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    clouds, centres = spheres(points)
    with torch.no_grad():
        return float((0.2 * head(encoder(clouds)) - centres).norm(dim=1).mean())


def spheres(points: int) -> tuple[Tensor, Tensor]:
    """Draw clouds on the half of a sphere that a camera sees, (B, K, 3), and the spheres' centres [m], (B, 3)."""
    centres = (2.0 * torch.rand(BATCH, 3) - 1.0) * torch.tensor(SPAN_M)
    normals = torch.nn.functional.normalize(torch.randn(BATCH, points, 3), dim=-1)
    normals[..., 0] = -normals[..., 0].abs()
    return (centres[:, None] + RADIUS_M * normals).half(), centres


if __name__ == "__main__":
    main()
