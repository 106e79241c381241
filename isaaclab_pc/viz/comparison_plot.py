# SPDX-License-Identifier: BSD-3-Clause
"""The picture of a comparison of runs: success, return and speed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib import colormaps
from matplotlib.figure import Figure

from isaaclab_pc.viz.drawing import legend_label, png_figure
from isaaclab_pc.viz.run_curves import RunCurves

__all__ = ["ComparedCurves", "EvaluationPoint", "save_comparison_plot"]

_BARS = ("env", "inference", "total")


class EvaluationPoint(NamedTuple):
    """How good a policy was at some time of the training."""

    env_steps: int
    """Steps of all environments until then."""

    wall_s: float
    """The run's time until then [s]."""

    success: float
    """Share of episodes, 0 to 1."""

    lower: float
    """Lower end of its 95 % interval."""

    upper: float
    """Upper end."""


@dataclass(frozen=True)
class ComparedCurves:
    """Curves of one run."""

    name: str
    """Its name in the legend."""

    curves: RunCurves
    """Its metrics over the iterations."""

    evaluations: Sequence[EvaluationPoint]
    """Its evaluations, in their order."""

    steps_per_s: tuple[float | None, float | None, float | None]
    """Environment steps per second of the environment alone, with the policy's inference, and with the update, too."""


def save_comparison_plot(runs: Sequence[ComparedCurves], threshold: float, path: Path) -> None:
    """Draw runs as a PNG file: success over steps and over time, return over steps, and speed.

    Evaluations of the deterministic policy are dots with their intervals; what was measured in training is a thin line.

    Args:
        runs: At least one.
        threshold: Success rate that is marked.
        path: PNG file to write.
    """
    with png_figure(path, (12, 8)) as figure:
        _draw(figure, runs, threshold)


def _draw(figure: Figure, runs: Sequence[ComparedCurves], threshold: float) -> None:
    (by_steps, by_time), (returns, speed) = figure.subplots(2, 2)

    palette = colormaps["tab10" if len(runs) <= 10 else "tab20"].colors  # pyright: ignore[reportAttributeAccessIssue]
    colors = [palette[index % len(palette)] for index in range(len(runs))]
    for run, color in zip(runs, colors, strict=True):
        steps = [count / 1e6 for count in run.curves.env_steps]
        minutes = [seconds / 60.0 for seconds in run.curves.wall_s]
        success = [100.0 * value for value in _metric(run, "success_rate")]
        _draw_success(by_steps, steps, success, run, [point.env_steps / 1e6 for point in run.evaluations], color)
        _draw_success(by_time, minutes, success, run, [point.wall_s / 60.0 for point in run.evaluations], color)
        returns.plot(steps, _metric(run, "mean_reward"), color=color)
    _draw_speed(speed, runs, colors)

    for axes in (by_steps, by_time):
        axes.axhline(100.0 * threshold, color="gray", linestyle="--", linewidth=1)
        axes.set(ylabel="success [%]", ylim=(-3, 103))
    by_steps.set(xlabel="environment steps [million]", title="success: dots evaluated, lines in training")
    by_time.set(xlabel="time [min]", title="the same over time")
    returns.set(xlabel="environment steps [million]", ylabel="mean return in training", title="return")
    for axes in (by_steps, by_time, returns):
        axes.grid(alpha=0.3)

    handles, labels = by_steps.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 3))


def _metric(run: ComparedCurves, name: str) -> list[float]:
    return run.curves.metrics.get(name, [math.nan] * len(run.curves.iterations))


def _draw_success(
    axes: Any, places: Sequence[float], success: Sequence[float], run: ComparedCurves, dots: Sequence[float], color: Any
) -> None:
    axes.plot(places, success, color=color, linewidth=1, alpha=0.5)
    rates = [100.0 * point.success for point in run.evaluations]
    below = [100.0 * (point.success - point.lower) for point in run.evaluations]
    above = [100.0 * (point.upper - point.success) for point in run.evaluations]
    # Rounding may leave an end of the interval a little beyond the rate.
    errors = [[max(value, 0.0) for value in side] for side in (below, above)]
    axes.errorbar(dots, rates, yerr=errors, color=color, marker="o", capsize=3, label=legend_label(run.name))


def _draw_speed(axes: Any, runs: Sequence[ComparedCurves], colors: Sequence[Any]) -> None:
    """Draw a group of bars for each speed."""
    width = 0.8 / len(runs)
    for index, (run, color) in enumerate(zip(runs, colors, strict=True)):
        known = [(place, rate) for place, rate in enumerate(run.steps_per_s) if rate is not None]
        places = [place + (index - (len(runs) - 1) / 2) * width for place, _ in known]
        bars = axes.bar(places, [rate for _, rate in known], width, color=color)
        if len(runs) <= 4:
            axes.bar_label(bars, fmt="{:,.0f}", fontsize="small")
    # Room for the numbers on the bars.
    axes.margins(y=0.1)
    axes.set_xticks(range(len(_BARS)), _BARS)
    axes.set(ylabel="environment steps per second", title="speed, median over the iterations")
    axes.grid(alpha=0.3, axis="y")
