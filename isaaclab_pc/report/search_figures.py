# SPDX-License-Identifier: BSD-3-Clause
"""Figures of a search for the number of environments: for a run's report, and for ``scripts/scale.py`` as a file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from isaaclab_pc.num_envs.ledger import Ledger, fit_line
from isaaclab_pc.num_envs.trends import TOLERANCE, pooled_speeds
from isaaclab_pc.num_envs.trial import Outcome, Trial, format_size
from isaaclab_pc.report.drawing import BAD, GOOD, SERIES, save_png
from isaaclab_pc.report.run_figures import LIMIT, TREND, Bar, Curve, PageFigure, curve_figure, draw_curves, row_figure
from isaaclab_pc.report.words import memory

_MIB = 2**20
_GIB = 2**30

_ENVIRONMENTS = "environments"
_SPEED = "frames per second"

_FITS: Mapping[str, Any] = {"color": SERIES[0], "marker": "o", "linestyle": "", "markersize": 6}
_FAILS: Mapping[str, Any] = {"color": BAD, "marker": "x", "linestyle": "", "markersize": 7}
_RING: Mapping[str, Any] = {"markersize": 11, "markerfacecolor": "none", "markeredgewidth": 2, "zorder": 4}
_CHOSEN: Mapping[str, Any] = {**_FITS, **_RING, "color": GOOD}


def ledger_figure(ledger: Ledger | None, budget: int | None) -> PageFigure | None:
    """Draw the parts of memory one after another up to the peak, and the budget [bytes] where it is known."""
    if ledger is None:
        return None
    bars = []
    end = 0.0
    for entry in ledger.entries:
        begin, end = end, end + entry.total / _MIB
        bars.append(Bar(entry.kind, begin, end, format_size(entry.total)))
    rows = [(entry.kind, *map(memory, (entry.total, entry.fixed, entry.per_env))) for entry in ledger.entries]
    rows.append(("sum", format_size(ledger.total), "", ""))
    limit = None
    if budget is not None:
        rows.append(("budget", format_size(budget), "", ""))
        limit = (budget / _MIB, f"budget {format_size(budget)}")
    title = f"Memory of {ledger.num_envs:,} environments by purpose"
    table = (("", "memory", "fixed", "per environment"), tuple(rows))
    return row_figure("ledger", title, "memory [MiB]", bars, table, limit=limit)


def memory_figure(trials: Sequence[Trial], num_envs: int | str) -> PageFigure | None:
    """Draw peak memory and budget over the number of environments; ``num_envs`` is the chosen one, or ``auto``."""
    rows = tuple(
        (f"{trial.num_envs:,}", trial.outcome.replace("_", " "), format_size(peak), trial.detail)
        for trial, peak in zip(trials, _peaks(trials), strict=True)
    )
    table = ((_ENVIRONMENTS, "outcome", "peak memory", "why"), rows)
    label, curves = _memory_curves(trials, num_envs)
    title = "Memory of the search's trials"
    return curve_figure("trials-memory", title, _ENVIRONMENTS, label, curves, y_range="zero", table=table)


def speed_figure(trials: Sequence[Trial], num_envs: int | str) -> PageFigure | None:
    """Draw the speed of each size, pooled over its trials; ``num_envs`` is the chosen one, or ``auto``."""
    rows = tuple((f"{size:,}", f"{speed:,.0f}") for size, speed in pooled_speeds(trials).items())
    table = ((_ENVIRONMENTS, _SPEED), rows)
    curves = _speed_curves(trials, num_envs)
    title = "Speed of the search's trials"
    return curve_figure("trials-speed", title, _ENVIRONMENTS, _SPEED, curves, y_range="zero", table=table)


def save_search_plot(trials: Sequence[Trial], num_envs: int, title: str, path: Path) -> None:
    """Draw the trials of a search, at least one, as a PNG file: peak memory to the left, speed to the right.

    A trial that was ended is drawn at the memory that it had reached; ``num_envs`` is the chosen size.
    """

    def draw(panels: Any) -> None:
        left, right = panels.flat
        label, curves = _memory_curves(trials, num_envs)
        draw_curves(left, _ENVIRONMENTS, label, curves, y_range="zero")
        draw_curves(right, _ENVIRONMENTS, _SPEED, _speed_curves(trials, num_envs), y_range="zero")

    save_png(draw, path, title, (11, 4.4), (1, 2))


def _peaks(trials: Sequence[Trial]) -> list[int]:
    """Return the peak memory of each trial, on the GPU where there is one [bytes]."""
    on_gpu = any(trial.device_bytes is not None for trial in trials[:1])
    return [(trial.device_bytes or 0) if on_gpu else trial.host_bytes for trial in trials]


def _memory_curves(trials: Sequence[Trial], num_envs: int | str) -> tuple[str, list[Curve]]:
    """Return the label of the vertical axis, and the trials with their trend and their budget."""
    if not trials:
        return "", []
    first = trials[0]
    place, budget = ("host", first.host_budget) if first.device_bytes is None else ("GPU", first.device_budget)
    right = 1.05 * max(trial.num_envs for trial in trials)
    used = [(trial, peak / _GIB) for trial, peak in zip(trials, _peaks(trials), strict=True)]
    curves = []
    intercept, slope = fit_line({trial.num_envs: gib for trial, gib in used if trial.fits})
    if intercept is not None and slope is not None:
        name = f"{1024 * slope:.2g} MiB per environment"
        curves.append(Curve(name, [0.0, right], [intercept, intercept + slope * right], look=TREND))
    if budget is not None:
        curves.append(Curve(f"budget, {format_size(budget)}", [0.0, right], [budget / _GIB] * 2, look=LIMIT))
    return f"peak {place} memory [GiB]", curves + _trial_curves(used, num_envs)


def _speed_curves(trials: Sequence[Trial], num_envs: int | str) -> list[Curve]:
    """Return the sizes that fitted, the line through them, and the speed that is near enough to the best."""
    speeds = pooled_speeds(trials)
    if not speeds:
        return []
    of_size = {trial.num_envs: trial for trial in trials if trial.fits}
    enough = (1 - TOLERANCE) * max(speeds.values())
    look = {**TREND, "linestyle": ":"}
    return [
        Curve("", list(speeds), list(speeds.values()), look=TREND),
        Curve(f"{TOLERANCE:.0%} below the best", [0.0, 1.05 * max(speeds)], [enough] * 2, look=look),
        *_trial_curves([(of_size[size], speed) for size, speed in speeds.items()], num_envs),
    ]


def _trial_curves(points: Sequence[tuple[Trial, float]], num_envs: int | str) -> list[Curve]:
    """Return a dot for each trial that fits, a cross for each that does not, and a ring around the chosen one."""
    curves = []
    for outcome in dict.fromkeys(trial.outcome for trial, _ in points):
        these = [(trial.num_envs, value) for trial, value in points if trial.outcome == outcome]
        sizes, values = zip(*sorted(these), strict=True)
        look = _FITS if outcome == Outcome.FITS else _FAILS
        curves.append(Curve(outcome.replace("_", " "), sizes, values, look=look))
    chosen = [value for trial, value in points if trial.fits and trial.num_envs == num_envs]
    if chosen and isinstance(num_envs, int):
        curves.append(Curve(f"chosen, {num_envs:,}", [num_envs], chosen[:1], look=_CHOSEN))
    return curves
