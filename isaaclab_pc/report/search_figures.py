# SPDX-License-Identifier: BSD-3-Clause
"""The trials of a search for the number of environments: for a run's report, and for ``scripts/scale.py`` as a file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from isaaclab_pc.num_envs.ledger import fit_line
from isaaclab_pc.num_envs.trends import TOLERANCE, pooled_speeds
from isaaclab_pc.num_envs.trial import Outcome, Trial, format_size
from isaaclab_pc.report.curves import PageFigure
from isaaclab_pc.report.drawing import BAD, GOOD, MUTED, SERIES, draw_svg, save_png
from isaaclab_pc.report.words import memory, number

_GIB = 2**30
_LINE: Mapping[str, Any] = {"color": MUTED, "linewidth": 1.2}
_RING: Mapping[str, Any] = {"s": 120, "facecolors": "none", "edgecolors": GOOD, "linewidths": 2, "zorder": 4}


def search_figure(trials: Sequence[Trial], num_envs: int | str) -> PageFigure | None:
    """Draw peak memory and speed over the number of environments; ``num_envs`` is the chosen one, or ``auto``."""
    if not trials:
        return None
    rows = [
        (
            number(trial.num_envs),
            trial.outcome.replace("_", " "),
            memory(peak),
            number(trial.frames_per_second or None),
            trial.detail,
        )
        for trial, peak in zip(trials, _peaks(trials), strict=True)
    ]
    title = "The search's trials"

    def draw(figure: Figure) -> None:
        _draw(figure.subplots(2, 1), trials, num_envs)

    columns = ("environments", "outcome", "peak memory", "frames per second", "why")
    svg = draw_svg(draw, "trials", title, (4.6, 6.0))
    return PageFigure("trials", title, svg, columns=columns, rows=rows)


def save_search_plot(trials: Sequence[Trial], num_envs: int, title: str, path: Path) -> None:
    """Draw the trials of a search, at least one, as a PNG file: peak memory to the left, speed to the right.

    A trial that was ended is drawn at the memory that it had reached; ``num_envs`` is the chosen size.
    """
    save_png(lambda figure: _draw(figure.subplots(1, 2), trials, num_envs), path, title, (11, 4.4))


def _peaks(trials: Sequence[Trial]) -> list[int]:
    """Return the peak memory of each trial, on the GPU where there is one [bytes]."""
    if trials[0].device_bytes is None:
        return [trial.host_bytes for trial in trials]
    return [trial.device_bytes or 0 for trial in trials]


def _draw(panels: Any, trials: Sequence[Trial], num_envs: int | str) -> None:
    _draw_memory(panels[0], trials, num_envs)
    _draw_speeds(panels[1], trials, num_envs)
    for axes in panels:
        axes.set(xlabel="environments", xlim=(0, 1.05 * max(trial.num_envs for trial in trials)))
        axes.set_ylim(0, 1.05 * axes.get_ylim()[1])
        if axes.has_data():
            axes.legend()


def _draw_memory(axes: Any, trials: Sequence[Trial], num_envs: int | str) -> None:
    """Draw the peak memory of each trial, the line through those that fit, and the budget."""
    peaks = [peak / _GIB for peak in _peaks(trials)]
    of_size = {trial.num_envs: peak for trial, peak in zip(trials, peaks, strict=True) if trial.fits}
    intercept, slope = fit_line(of_size)
    if intercept is not None and slope is not None:
        ends = [0, max(trial.num_envs for trial in trials)]
        name = f"{1024 * slope:.2g} MiB per environment"
        axes.plot(ends, [intercept + slope * end for end in ends], label=name, **_LINE)
    first = trials[0]
    place, budget = ("host", first.host_budget) if first.device_bytes is None else ("GPU", first.device_budget)
    axes.set_ylabel(f"peak {place} memory [GiB]")
    if budget is not None:
        axes.axhline(budget / _GIB, color=BAD, linestyle="--", label=f"budget, {format_size(budget)}")
    _draw_trials(axes, trials, peaks, num_envs)


def _draw_speeds(axes: Any, trials: Sequence[Trial], num_envs: int | str) -> None:
    """Draw the speed of each size that fitted, pooled over its trials, and the speed near enough to the best."""
    axes.set_ylabel("frames per second")
    speeds = pooled_speeds(trials)
    if not speeds:
        return
    axes.plot(list(speeds), list(speeds.values()), **_LINE)
    enough = (1 - TOLERANCE) * max(speeds.values())
    axes.axhline(enough, linestyle=":", label=f"{TOLERANCE:.0%} below the best", **_LINE)
    of_size = {trial.num_envs: trial for trial in trials if trial.fits}
    _draw_trials(axes, [of_size[size] for size in speeds], list(speeds.values()), num_envs)


def _draw_trials(axes: Any, trials: Sequence[Trial], values: Sequence[float], num_envs: int | str) -> None:
    """Draw a dot for each trial that fits, a cross for each that does not, and a ring around the chosen one."""
    points = [(trial, trial.num_envs, value) for trial, value in zip(trials, values, strict=True)]
    for outcome in dict.fromkeys(trial.outcome for trial in trials):
        look = {"color": SERIES[0]} if outcome == Outcome.FITS else {"color": BAD, "marker": "x"}
        these = [(size, value) for trial, size, value in points if trial.outcome == outcome]
        axes.scatter(*zip(*these, strict=True), label=outcome.replace("_", " "), zorder=3, **look)
    chosen = [(size, value) for trial, size, value in points if trial.fits and size == num_envs]
    if chosen:
        axes.scatter(*chosen[0], label=f"chosen, {num_envs:,}", **_RING)
