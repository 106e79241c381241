# SPDX-License-Identifier: BSD-3-Clause
"""How the simulators are measured: each script of this folder calls :func:`measure` in an environment of its own."""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import psutil

WARMUP_STEPS = 20
WINDOWS = 5


def arguments(description: str | None) -> argparse.Namespace:
    """Read what ``bench_simulators.py`` gives to each script."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--obs", required=True, help="what is observed; each script has its own kinds")
    parser.add_argument("--num_envs", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True, help="how long steps are timed")
    return parser.parse_args()


def measure(step: Callable[[], Any], args: argparse.Namespace, control_hz: float, **told: Any) -> None:
    """Time steps of all environments under random actions, and print what came of it as a line of JSON.

    Args:
        step: Steps all environments once, and resets those at the end of an episode.
        args: Those of :func:`arguments`.
        control_hz: Steps of an environment in a second of its time.
        **told: What else the line says.
    """
    for _ in range(WARMUP_STEPS):
        step()

    rates = []
    for _ in range(WINDOWS):
        steps = 0
        start = time.perf_counter()
        while time.perf_counter() - start < args.seconds / WINDOWS:
            step()
            steps += 1
        rates.append(steps * args.num_envs / (time.perf_counter() - start))

    line = {"steps_per_s": statistics.median(rates), "control_hz": control_hz, "bytes": memory(), **told}
    print(json.dumps(line), flush=True)


def memory() -> int:
    """Return what this process and its children hold [bytes], pages that they share counted once."""
    process = psutil.Process()
    return sum(one.memory_full_info().pss for one in [process, *process.children(recursive=True)])
