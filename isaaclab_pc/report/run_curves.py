# SPDX-License-Identifier: BSD-3-Clause
"""A run's metrics over its iterations, for plots and tables. Loads neither torch nor matplotlib."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from isaaclab_pc.run.iteration_log import read_iterations

__all__ = ["RunCurves", "read_run_curves"]


@dataclass(frozen=True)
class RunCurves:
    """Metrics that a run reported after each iteration. All lists have one item for each iteration, in their order."""

    iterations: list[int]
    """Iterations completed, rising; 1 after the first."""

    env_steps: list[int]
    """Steps of all environments together until then."""

    wall_s: list[float]
    """The run's time until then, all resumptions together, evaluations included [s]."""

    metrics: dict[str, list[float]]
    """Values by the metric's name, the same with every learning library: ``success_rate``, ``mean_reward``,
    ``collect_s``, ``learn_s``, ``Perf/*``, ``Memory/*``, ``loss/*`` and the others of
    :meth:`isaaclab_pc.learners.Runner.train`, and what the environment logged, such as ``Guard/action``. NaN
    where an iteration had no such value, as the success rate of one in which no episode ended."""


def read_run_curves(folder: Path) -> RunCurves:
    """Read the curves of a run, whatever its learning library; also of one that still trains.

    They come from ``iterations.jsonl`` (:mod:`isaaclab_pc.run.iteration_log`), which the worker writes.

    Args:
        folder: The run's folder, ``logs/<runner>/<experiment>/<time>``.

    Returns:
        The curves; empty lists where the run has completed no iteration.
    """
    entries = read_iterations(folder)
    names = sorted({name for entry in entries for name in entry.metrics})
    return RunCurves(
        iterations=[entry.iteration for entry in entries],
        env_steps=[entry.env_steps for entry in entries],
        wall_s=[entry.wall_s for entry in entries],
        metrics={name: [entry.metrics.get(name, math.nan) for entry in entries] for name in names},
    )
