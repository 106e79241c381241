# SPDX-License-Identifier: BSD-3-Clause
"""The figures of a search for the number of environments in a run's report, each with the numbers that it shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.ticker import EngFormatter, MaxNLocator

from isaaclab_pc.scaling.ledger import Ledger, fit_line
from isaaclab_pc.scaling.trends import pooled_speeds
from isaaclab_pc.scaling.trial import Trial, format_size
from isaaclab_pc.viz.run_figures import PageFigure
from isaaclab_pc.viz.svg_figure import BAD, GOOD, INK, MUTED, SERIES, draw_svg, legend_above

__all__ = ["ledger_figure", "memory_figure", "speed_figure"]

_MIB = 2**20

_SIZE_WIDTH = 0.5
"""Width of the size beside a bar of the ledger, at most, as a part of the longest bar."""


def ledger_figure(key: str, title: str, ledger: Ledger, budget: int | None) -> PageFigure:
    """Draw what memory is made of, part after part up to the peak, and the budget.

    Args:
        key: Name in the page.
        title: Headline.
        ledger: At least one entry.
        budget: Memory that there was [bytes]; None: not known.
    """
    begins = np.cumsum([0, *(entry.total for entry in ledger.entries)]) / _MIB

    def draw(axes: Any) -> None:
        top = max(float(begins[-1]), (budget or 0) / _MIB)
        for index, entry in enumerate(ledger.entries):
            axes.barh(index, entry.total / _MIB, 0.6, left=begins[index], color=SERIES[0])
            end = float(begins[index + 1])
            if budget is not None and end < budget / _MIB < end + _SIZE_WIDTH * top:
                # The line of the budget would go through the text.
                end = budget / _MIB
            axes.text(end + 0.015 * top, index, format_size(entry.total), va="center", color=INK)
        names = [entry.kind for entry in ledger.entries]
        if budget is not None:
            axes.axvline(budget / _MIB, color=BAD, linestyle="--")
            # In a row of its own below the last bar, which may end with the budget.
            place = (budget / _MIB - 0.03 * top, len(names))
            axes.text(*place, f"budget {format_size(budget)}", color=BAD, ha="right", va="center")
        axes.set_yticks(range(len(names)), names, color=INK)
        axes.set(xlabel="memory [MiB]", xlim=(0, 1.25 * top), ylim=(len(names) + 0.4, -0.6))
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.grid(visible=False, axis="y")

    size = (4.6, 1.0 + 0.28 * len(ledger.entries))
    rows = [(entry.kind, *map(_size, (entry.total, entry.fixed, entry.per_env))) for entry in ledger.entries]
    rows.append(("sum", format_size(ledger.total), "", ""))
    if budget is not None:
        rows.append(("budget", format_size(budget), "", ""))
    columns = ("", "memory", "fixed", "per environment")
    return PageFigure(key, title, draw_svg(draw, key, title, size), columns, tuple(rows))


def _size(size: float | None) -> str:
    return "" if size is None else format_size(size)


def memory_figure(key: str, title: str, trials: Sequence[Trial], num_envs: int | None) -> PageFigure:
    """Draw the memory of a search's trials over the number of environments, and the budget.

    Args:
        key: Name in the page.
        title: Headline.
        trials: At least one.
        num_envs: What was chosen; None: nothing was.
    """
    on_gpu = trials[0].device_bytes is not None
    budget = trials[0].device_budget if on_gpu else trials[0].host_budget
    used = [((trial.device_bytes or 0) if on_gpu else trial.host_bytes) / _MIB for trial in trials]
    points = list(zip(trials, used, strict=True))

    def draw(axes: Any) -> None:
        intercept, slope = fit_line({trial.num_envs: mib for trial, mib in points if trial.fits})
        if intercept is not None and slope is not None:
            right = 1.05 * max(trial.num_envs for trial in trials)
            label = f"{slope:.2g} MiB per environment"
            axes.plot([0, right], [intercept, intercept + slope * right], color=MUTED, linewidth=1.2, label=label)
        if budget is not None:
            axes.axhline(budget / _MIB, color=BAD, linestyle="--", label=f"budget, {format_size(budget)}")
        _draw_trials(axes, points, num_envs)
        axes.set_ylabel(f"peak {'GPU' if on_gpu else 'host'} memory [MiB]")

    rows = tuple(
        (f"{trial.num_envs:,}", trial.outcome.replace("_", " "), format_size(mib * _MIB), trial.detail)
        for trial, mib in points
    )
    columns = ("environments", "outcome", "peak memory", "why")
    return PageFigure(key, title, draw_svg(draw, key, title), columns, rows)


def speed_figure(key: str, title: str, trials: Sequence[Trial], num_envs: int | None) -> PageFigure:
    """Draw the speed of each size of a search, as its trials tell it together.

    Args:
        key: Name in the page.
        title: Headline.
        trials: At least one that fitted.
        num_envs: What was chosen; None: nothing was.
    """
    of_size = {trial.num_envs: trial for trial in trials if trial.fits}
    points = [(of_size[size], speed) for size, speed in pooled_speeds(trials).items()]

    def draw(axes: Any) -> None:
        sizes = [trial.num_envs for trial, _ in points]
        axes.plot(sizes, [speed for _, speed in points], color=MUTED, linewidth=1.2)
        _draw_trials(axes, points, num_envs)
        axes.set_ylabel("frames per second")
        axes.yaxis.set_major_formatter(EngFormatter(sep=""))

    rows = tuple((f"{trial.num_envs:,}", f"{speed:,.0f}") for trial, speed in points)
    return PageFigure(key, title, draw_svg(draw, key, title), ("environments", "frames per second"), rows)


def _draw_trials(axes: Any, points: Sequence[tuple[Trial, float]], num_envs: int | None) -> None:
    """Draw a dot for what fits, a cross for what does not, and a ring around what was chosen."""
    fitting = [(trial.num_envs, value) for trial, value in points if trial.fits]
    failed = [(trial.num_envs, value) for trial, value in points if not trial.fits]
    if fitting:
        axes.scatter(*zip(*fitting, strict=True), color=SERIES[0], label="fits", zorder=3)
    if failed:
        axes.scatter(*zip(*failed, strict=True), color=BAD, marker="x", label="does not fit", zorder=3)
    chosen = [(size, value) for size, value in fitting if size == num_envs][:1]
    if chosen:
        ring = {"s": 130, "facecolors": "none", "edgecolors": GOOD, "linewidths": 2}
        axes.scatter(*zip(*chosen, strict=True), label="chosen", zorder=4, **ring)

    axes.set_xlabel("environments")
    axes.set_xlim(0, 1.1 * max(trial.num_envs for trial, _ in points))
    axes.set_ylim(0, 1.05 * axes.get_ylim()[1])
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    legend_above(axes)
