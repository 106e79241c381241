# SPDX-License-Identifier: BSD-3-Clause
"""What each learning library's rollout takes: bytes a sample, and CPU time beside the simulation.

    python benchmarks/library_rollouts.py --num-envs 256

The environment has the shapes of ``reach`` and no simulation, so all of a step's time is the library's: the policy, and
keeping and converting what it is given. It is the CPU's time on one thread, so other jobs on the machine matter little.
"""

import argparse
import itertools
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from isaaclab_pc.launch.compose import compose
from isaaclab_pc.runners import RUNNERS, Decision
from isaaclab_pc.scaling.learner_memory import StandIn
from isaaclab_pc.scaling.trial import Spaces
from isaaclab_pc.tensor_bytes import tensor_bytes
from isaaclab_pc.workers.resolve import resolve

SPACES = Spaces({"policy": ((24,), "float32"), "critic": ((30,), "float32"), "points": ((64, 3), "float16")}, 3)


class Clock(StandIn):
    """Notes when it is stepped."""

    times: list[float]

    def step(self, action: torch.Tensor) -> Any:
        """Return zeros."""
        self.times.append(time.process_time())
        return super().step(action)


def measure(runner: str, num_envs: int) -> tuple[int, float]:
    """Return the bytes of a sample in the rollout, and the median CPU time of a step [ms]."""
    settings = compose([f"runner={runner}", "task=reach", "algorithm=ppo", "device=cpu", "physics=ovphysx"])
    run = resolve(settings, num_envs, "reach")
    env = Clock(SPACES, num_envs)
    env.times = []

    with tempfile.TemporaryDirectory() as folder:
        learner = run.adapter.make(env, run.agent_cfg, Path(folder), "cpu")
        learner.train(1, lambda completed, metrics: Decision.STOP)
        held = tensor_bytes(learner.holders()["rollout storage"])
    steps = [after - before for before, after in itertools.pairwise(env.times)]
    return held // run.plan.samples_per_update, 1e3 * statistics.median(steps)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-envs", type=int, default=256, metavar="N")
    num_envs = parser.parse_args().num_envs

    torch.set_num_threads(1)
    print(f"| `runner` | bytes a sample | CPU time of a step of {num_envs} environments [ms] |\n|---|---|---|")
    for runner in RUNNERS:
        held, milliseconds = measure(runner, num_envs)
        print(f"| `{runner}` | {held} | {milliseconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
