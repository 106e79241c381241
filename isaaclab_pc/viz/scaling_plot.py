# SPDX-License-Identifier: BSD-3-Clause
"""The plot of a search: memory and speed over the number of environments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from isaaclab_pc.scaling.ledger import fit_line
from isaaclab_pc.scaling.search import TOLERANCE
from isaaclab_pc.scaling.trial import Trial

__all__ = ["save_scaling_plot"]

_GIB = 2**30
_FITS_COLOR = "tab:blue"
_FAILS_COLOR = "tab:red"
_WINNER_COLOR = "tab:green"


def save_scaling_plot(trials: Sequence[Trial], num_envs: int, title: str, path: Path) -> None:
    """Draw the trials of a search as a PNG file.

    Left: peak memory with the budget and the line through the sizes that fitted. Right: training frames per second,
    with the band in which a size is as good as the best. A trial that was ended is drawn at the memory it had reached.

    Args:
        trials: All trials, at least one.
        num_envs: The winner.
        title: Headline.
        path: PNG file to write.
    """
    figure = Figure(figsize=(11, 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    memory, speed = figure.subplots(1, 2)
    _draw_memory(memory, trials, num_envs)
    _draw_speed(speed, trials, num_envs)

    for axes in (memory, speed):
        axes.set_xlabel("environments")
        # Room for what is written beside the marks.
        axes.set_xlim(0, 1.1 * axes.get_xlim()[1])
        axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
        axes.grid(alpha=0.3)

    figure.suptitle(title)
    figure.savefig(path, dpi=120)


def _draw_memory(axes: Any, trials: Sequence[Trial], num_envs: int) -> None:
    on_gpu = trials[0].device_bytes is not None
    budget = trials[0].device_budget if on_gpu else trials[0].host_budget
    used = [(t, (t.device_bytes or 0 if on_gpu else t.host_bytes) / _GIB) for t in trials]
    _scatter(axes, used, num_envs)

    intercept, slope = fit_line({t.num_envs: value for t, value in used if t.fits})
    if intercept is not None and slope is not None:
        right = max(t.num_envs for t in trials) * 1.05
        label = f"{intercept:.2f} GiB + {slope * 1024:.2f} MiB per environment"
        axes.plot([0, right], [intercept, intercept + slope * right], color=_FITS_COLOR, alpha=0.5, label=label)
    if budget is not None:
        axes.axhline(budget / _GIB, color=_FAILS_COLOR, linestyle="--", label=f"budget, {budget / _GIB:.2f} GiB")
    axes.set_ylabel("peak GPU memory [GiB]" if on_gpu else "peak host memory [GiB]")
    axes.legend(fontsize="small")


def _draw_speed(axes: Any, trials: Sequence[Trial], num_envs: int) -> None:
    speeds = sorted((t.num_envs, t.frames_per_second) for t in trials if t.fits)
    if speeds:
        best = max(speed for _, speed in speeds)
        axes.axhspan(
            best * (1 - TOLERANCE), best, color=_WINNER_COLOR, alpha=0.15, label=f"within {TOLERANCE:.0%} of the best"
        )
        axes.plot(*zip(*speeds, strict=True), color=_FITS_COLOR, alpha=0.5)

    _scatter(axes, [(t, t.frames_per_second) for t in trials if t.fits], num_envs)
    axes.set_ylabel("training frames per second")
    axes.legend(fontsize="small")


def _scatter(axes: Any, values: Sequence[tuple[Trial, float]], num_envs: int) -> None:
    """Draw one mark a trial: a dot where it fitted, a cross with its outcome where not, a ring around the winner."""
    for fits, marker, color, label in ((True, "o", _FITS_COLOR, "fits"), (False, "x", _FAILS_COLOR, "does not fit")):
        chosen = [(t.num_envs, value) for t, value in values if t.fits is fits]
        if chosen:
            axes.scatter(*zip(*chosen, strict=True), marker=marker, color=color, label=label, zorder=3)

    for trial, value in values:
        if not trial.fits:
            axes.annotate(
                trial.outcome.replace("_", " "), (trial.num_envs, value), fontsize="small", color=_FAILS_COLOR
            )
        elif trial.num_envs == num_envs:
            axes.scatter(
                [num_envs], [value], s=160, facecolors="none", edgecolors=_WINNER_COLOR, linewidths=2, zorder=4
            )
            axes.annotate(f" {num_envs}", (num_envs, value), color=_WINNER_COLOR, va="bottom", fontweight="bold")
