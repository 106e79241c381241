# SPDX-License-Identifier: BSD-3-Clause
"""The plot of a search: memory and speed over the number of environments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from isaaclab_pc.scaling.ledger import fit_line
from isaaclab_pc.scaling.trends import TOLERANCE, pooled_speeds
from isaaclab_pc.scaling.trial import Trial
from isaaclab_pc.viz.drawing import png_figure

__all__ = ["save_scaling_plot"]

_GIB = 2**30
_FITS_COLOR = "tab:blue"
_FAILS_COLOR = "tab:red"
_CHOSEN_COLOR = "tab:green"


def save_scaling_plot(trials: Sequence[Trial], num_envs: int, title: str, path: Path) -> None:
    """Draw the trials of a search as a PNG file.

    Left: peak memory, the budget, and a line through the sizes that fitted. Right: training frames per second, and the
    band in which a size counts as good as the fastest. A trial that was ended is drawn at the memory it had reached.

    Args:
        trials: All trials, at least one.
        num_envs: The number of environments that was chosen.
        title: Headline.
        path: PNG file to write.
    """
    with png_figure(path, (11, 4.4)) as figure:
        memory_axes, speed_axes = figure.subplots(1, 2)
        _draw_memory(memory_axes, trials, num_envs)
        _draw_speed(speed_axes, trials, num_envs)

        for axes in (memory_axes, speed_axes):
            axes.set_xlabel("environments")
            # Room for the text beside the marks.
            axes.set_xlim(0, 1.1 * axes.get_xlim()[1])
            axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
            axes.grid(alpha=0.3)

        figure.suptitle(title)


def _draw_memory(axes: Any, trials: Sequence[Trial], num_envs: int) -> None:
    on_gpu = trials[0].device_bytes is not None
    budget = trials[0].device_budget if on_gpu else trials[0].host_budget
    used = [(trial, _peak_bytes(trial, on_gpu) / _GIB) for trial in trials]
    _scatter(axes, used, num_envs)

    intercept, slope = fit_line({trial.num_envs: gib for trial, gib in used if trial.fits})
    if intercept is not None and slope is not None:
        right = max(trial.num_envs for trial in trials) * 1.05
        label = f"{intercept:.2f} GiB + {slope * 1024:.2f} MiB per environment"
        axes.plot([0, right], [intercept, intercept + slope * right], color=_FITS_COLOR, alpha=0.5, label=label)

    if budget is not None:
        axes.axhline(budget / _GIB, color=_FAILS_COLOR, linestyle="--", label=f"budget, {budget / _GIB:.2f} GiB")
    axes.set_ylabel("peak GPU memory [GiB]" if on_gpu else "peak host memory [GiB]")
    axes.legend(fontsize="small")


def _peak_bytes(trial: Trial, on_gpu: bool) -> int:
    if on_gpu:
        return trial.device_bytes or 0
    return trial.host_bytes


def _draw_speed(axes: Any, trials: Sequence[Trial], num_envs: int) -> None:
    speeds = pooled_speeds(trials)
    if speeds:
        best = max(speeds.values())
        axes.axhspan(
            best * (1 - TOLERANCE), best, color=_CHOSEN_COLOR, alpha=0.15, label=f"within {TOLERANCE:.0%} of the best"
        )
        axes.plot(*zip(*speeds.items(), strict=True), color=_FITS_COLOR, alpha=0.5)

    _scatter(axes, [(trial, speeds[trial.num_envs]) for trial in trials if trial.fits], num_envs)
    axes.set_ylabel("training frames per second")
    axes.legend(fontsize="small")


def _scatter(axes: Any, values: Sequence[tuple[Trial, float]], num_envs: int) -> None:
    """Draw one mark a trial: a dot if it fits, else a cross with its outcome; and a ring around the chosen one."""
    fitting = [(trial.num_envs, value) for trial, value in values if trial.fits]
    if fitting:
        axes.scatter(*zip(*fitting, strict=True), marker="o", color=_FITS_COLOR, label="fits", zorder=3)

    failed = [(trial.num_envs, value) for trial, value in values if not trial.fits]
    if failed:
        axes.scatter(*zip(*failed, strict=True), marker="x", color=_FAILS_COLOR, label="does not fit", zorder=3)

    for trial, value in values:
        if not trial.fits:
            axes.annotate(
                trial.outcome.replace("_", " "), (trial.num_envs, value), fontsize="small", color=_FAILS_COLOR
            )
        elif trial.num_envs == num_envs:
            axes.scatter(
                [num_envs], [value], s=160, facecolors="none", edgecolors=_CHOSEN_COLOR, linewidths=2, zorder=4
            )
            axes.annotate(f" {num_envs}", (num_envs, value), color=_CHOSEN_COLOR, va="bottom", fontweight="bold")
