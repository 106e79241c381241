# SPDX-License-Identifier: BSD-3-Clause
"""Program of two processes that train together for test_distributed.py; the results go to rank_<N>.pt."""

import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from isaaclab_pc.agents.networks import RunningNorm
from isaaclab_pc.learners import RUNNERS, Decision
from isaaclab_pc.learners.common.checkpoint_file import load_checkpoint
from isaaclab_pc.learners.common.tripwire import Tripwire
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.tensors.distributed import average_gradients
from isaaclab_pc.workers.ranks import Order, Ranks, follow
from tests.unit.learners import test_distill_runner
from tests.unit.learners.bench import Bench, flat, go_on

NUM_ENVS = 5
FEATURES = 3


def samples() -> torch.Tensor:
    """The samples of both ranks, (2, N, F): those of the second have another mean."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.rand(2, NUM_ENVS, FEATURES, dtype=torch.float64, generator=generator)
    return drawn + torch.tensor([0.0, 2.0])[:, None, None]


def gradient(inputs: torch.Tensor) -> nn.Linear:
    """A layer with the gradient of a mean over samples, (B, F)."""
    torch.manual_seed(1)
    layer = nn.Linear(FEATURES, 1, dtype=torch.float64)
    layer(inputs).square().mean().backward()
    return layer


def one_bad_update(rank: int) -> dict[str, Any]:
    """Take three steps of Adam, in the second of which the second rank alone has a loss that is NaN."""
    torch.manual_seed(2)
    network = nn.Linear(FEATURES, 1)
    optimizer = torch.optim.Adam(network.parameters())
    tripwire = Tripwire(optimizer, [network])
    for step in range(3):
        optimizer.zero_grad()
        target = math.nan if (step, rank) == (1, 1) else float(rank)
        (network(torch.ones(1, FEATURES)) - target).square().mean().backward()
        average_gradients(network.parameters())
        optimizer.step()
    return {"weights": network.state_dict(), "metrics": tripwire.end_iteration()}


def train(bench: Any, rank: int) -> dict[str, torch.Tensor]:
    """Train a library's agent on episodes that the other rank does not see; return all weights."""
    bench.env.count += 17 * rank
    bench.runner.train(3, go_on)
    path = bench.folder / "weights.pt"
    bench.runner.save(path, {})
    state, _ = load_checkpoint(path, "cpu", ("algorithm",))
    return flat(state["algorithm"])


class PausingRunner:
    """Iterations without a library; each is a collective step, as with a library."""

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks
        self.completed_iterations = 0
        self.started_anew = False

    def train(self, max_iterations: int, on_iteration: Any) -> None:
        while self.completed_iterations < max_iterations:
            torch.distributed.barrier()
            self.completed_iterations += 1
            metrics = {"success_rate": float(self.ranks.rank), "Perf/total_fps": 100.0}
            if on_iteration(self.completed_iterations, metrics) is Decision.STOP:
                return

    def start_new_episodes(self) -> None:
        self.started_anew = True


def lead(ranks: Ranks) -> tuple[int, Any]:
    """Pause once, stop after the fourth iteration of nine; return the iterations and what was gathered last."""
    runner: Any = PausingRunner(ranks)
    if not ranks.is_first:
        assert follow(ranks, runner, 9, lambda: {"state": 3}) is Order.STOP
        assert runner.started_anew
        return runner.completed_iterations, None

    gathered: list[Any] = []

    def on_iteration(completed: int, metrics: Mapping[str, float]) -> Decision:
        gathered[:] = ranks.gather((dict(metrics), {"state": 1}))
        order = {2: Order.PAUSE, 4: Order.STOP}.get(completed, Order.GO_ON)
        ranks.tell(order)
        return Decision.CONTINUE if order is Order.GO_ON else Decision.STOP

    for _ in range(2):
        ranks.tell(Order.GO_ON)
        runner.train(9, on_iteration)
    return runner.completed_iterations, gathered


def main(folder: Path) -> None:
    """Do all of it, so that the processes start once."""
    ranks = Ranks()
    ranks.connect()
    own = samples()[ranks.rank]

    layer = gradient(own)
    average_gradients(layer.parameters())
    norm = RunningNorm(FEATURES).double()
    norm.add_samples(own)
    norm.add_samples(0.5 * own)
    results: dict[str, Any] = {"gradient": [parameter.grad for parameter in layer.parameters()]}
    results["norm"] = norm.state_dict()
    results["one bad update"] = one_bad_update(ranks.rank)

    for name in RUNNERS:
        own_folder = folder / f"{name}_{ranks.rank}"
        own_folder.mkdir()
        torch.manual_seed(ranks.rank)
        results[name] = train(Bench(name, own_folder), ranks.rank)
    distill_folder = folder / f"distill_{ranks.rank}"
    distill_folder.mkdir()
    bench = test_distill_runner.Bench(distill_folder)
    bench.folder = distill_folder  # type: ignore[attr-defined]
    results["distill"] = train(bench, ranks.rank)

    results["lead"] = lead(ranks)
    settings = ranks.own_settings(RunSettings(seed=5, device="cuda:0", visualizer="viser"))
    results["settings"] = (settings.seed, settings.device, settings.visualizer)
    torch.save(results, folder / f"rank_{ranks.rank}.pt")
    ranks.disconnect()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
