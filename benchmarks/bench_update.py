# SPDX-License-Identifier: BSD-3-Clause
"""What a minibatch costs beside its forward and backward pass: Adam's step, and its copy out of what is held.

``adam``: PyTorch's three ways to take a step, on the parameters of the default, the large and the distilled agent.
``gather``: a minibatch's rows by ``tensor[rows]``, by ``index_select``, and by one ``index_select`` of all groups as
bytes. CPU times [us], medians; the ways take turns, so what runs beside them meets all alike.

    python benchmarks/bench_update.py
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from isaaclab_pc.agents import distill, ppo
from isaaclab_pc.agents.networks import ObservationEncoder, make_mlp

ADAM: dict[str, dict[str, Any]] = {
    "one by one": {"foreach": False},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
}
SHAPES = {"policy": (30,), "points": (64, 3), "critic": (40,), "action": (8,)}
"""About those of ``lift``."""
SIZES = ((4096, 1024), (400_000, 1024), (32_768, 2048))
"""Samples that are held and those of a minibatch: PPO's, distillation's, and PPO's with ``agent=large``."""
CALLS = 10
"""Calls that are timed together."""


def main() -> None:
    """Print two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    args = parser.parse_args()

    torch.set_num_threads(1)
    print_table("agent", (adam_steps(name) for name in NETWORKS), args.repeats)
    print_table("held, minibatch", (gathers(*size) for size in SIZES), args.repeats)


def print_table(title: str, rows: Iterable[tuple[str, Mapping[str, Callable[[], object]]]], repeats: int) -> None:
    """Measure the ways of each row in turns, and print them."""
    for index, (name, ways) in enumerate(rows):
        if index == 0:
            print(f"\n| {title} | {' | '.join(ways)} |\n|---|{'---|' * len(ways)}")
        times: dict[str, list[float]] = {way: [] for way in ways}
        for repeat in range(repeats + 1):
            for way, call in ways.items():
                start = time.process_time()
                for _ in range(CALLS):
                    call()
                if repeat > 0:  # the first one warms up
                    times[way].append(1e6 * (time.process_time() - start) / CALLS)
        print(f"| {name} | {' | '.join(f'{statistics.median(found):.0f}' for found in times.values())} |", flush=True)


def ppo_networks(settings: ppo.PpoSettings) -> list[nn.Module]:
    """Return actor and critic."""
    encoder = ObservationEncoder({"points": SHAPES["points"]}, settings.encoder)
    actor = make_mlp(SHAPES["policy"][0] + encoder.latent_dim, settings.actor_hidden, 8)
    return [encoder, actor, make_mlp(SHAPES["critic"][0], settings.critic_hidden, 1)]


def student(settings: distill.DistillSettings) -> list[nn.Module]:
    """Return the student's networks."""
    encoder = ObservationEncoder({"points": SHAPES["points"]}, settings.encoder)
    return [encoder, make_mlp(SHAPES["policy"][0] + encoder.latent_dim, settings.hidden, 8)]


NETWORKS: dict[str, Callable[[], list[nn.Module]]] = {
    "default": lambda: ppo_networks(ppo.DEFAULT),
    "large": lambda: ppo_networks(ppo.sizes(ppo.DEFAULT)["large"]),
    "distilled": lambda: student(distill.DEFAULT),
}


def adam_steps(name: str) -> tuple[str, dict[str, Callable[[], object]]]:
    """Return how the parameters are described, and a step of each way."""
    steps: dict[str, Callable[[], object]] = {}
    parameters: list[nn.Parameter] = []
    for way, arguments in ADAM.items():
        parameters = [parameter for network in NETWORKS[name]() for parameter in network.parameters()]
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        steps[way] = torch.optim.Adam(parameters, lr=1e-3, **arguments).step
    return f"{name}: {sum(p.numel() for p in parameters):,} in {len(parameters)} tensors", steps


def gathers(held: int, size: int) -> tuple[str, dict[str, Callable[[], object]]]:
    """Return how the samples are described, and each way to take a minibatch out of them."""
    groups = {name: torch.rand(held, *shape) for name, shape in SHAPES.items()}
    groups["points"] = groups["points"].half()
    joined = torch.cat([group.flatten(1).view(torch.uint8) for group in groups.values()], dim=1)
    rows: Tensor = torch.randperm(held)[:size]
    return f"{held:,}, {size:,}", {
        "`tensor[rows]`": lambda: [group[rows] for group in groups.values()],
        "`index_select`": lambda: [group.index_select(0, rows) for group in groups.values()],
        "one `index_select`": lambda: joined.index_select(0, rows),
    }


if __name__ == "__main__":
    main()
