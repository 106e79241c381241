# SPDX-License-Identifier: BSD-3-Clause
"""Curves of a report, each figure with a table of its numbers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator

from isaaclab_pc.report.drawing import SERIES, draw_svg, legend_above
from isaaclab_pc.report.words import NOTHING

_MAX_POINTS = 120
"""Points of a curve, and rows of its table; a longer one is drawn as the means of neighbours."""

_MAX_MARKERS = 40
"""Curves of no more points mark each of them."""

_DASHES = ("-", "--", "-.", ":", (0, (6, 1.5, 1, 1.5, 1, 1.5)), (0, (1, 1)))
_MARKERS = "osD^vP"


@dataclass(frozen=True)
class PageFigure:
    """A figure of the page, an ``<svg>`` element, and the table of its numbers."""

    key: str
    """Its name, unique in the page."""
    title: str
    svg: str
    note: str = ""
    """Caption that explains how to read it."""
    columns: tuple[str, ...] = ()
    rows: Sequence[tuple[str, ...]] = ()
    """Empty: there is no table."""


@dataclass(frozen=True)
class Curve:
    """One curve."""

    name: str
    """For legend and table."""
    x: Sequence[float]
    """Rising."""
    y: Sequence[float]
    """As many; a value that is not finite is a gap."""
    intervals: Sequence[tuple[float, float]] = ()
    """Lower and upper ends of the 95 % intervals of all values, which are drawn as marks then."""
    look: Mapping[str, Any] = field(default_factory=dict)
    """Properties of matplotlib's line that replace those of its series."""
    series: int | None = None
    """Number that colour, dashes and marks follow from; None: the curve's position in the figure."""


def curve_figure(
    key: str, title: str, x_label: str, y_label: str, curves: Sequence[Curve | None], *, percent: bool = False
) -> PageFigure | None:
    """Draw those curves that are not None, long ones as means of neighbours; None without any."""
    found = [curve for curve in curves if curve is not None]
    if not found:
        return None
    each = max(math.ceil(len(curve.x) / _MAX_POINTS) for curve in found)
    drawn = [
        curve if curve.intervals else replace(curve, x=_means(curve.x, each), y=_means(curve.y, each))
        for curve in found
    ]

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        draw_curves(axes, x_label, y_label, drawn, percent=percent)
        if len(drawn) > 1:
            legend_above(axes)

    note = f"Each point is the mean of {each} iterations." if each > 1 else ""
    width = 4 if any(curve.intervals for curve in drawn) else 3
    columns = ("curve", x_label, y_label, "95 % interval")[:width]
    rows = [row[:width] for row in _rows(drawn)]
    return PageFigure(key, title, draw_svg(draw, key, title), note, columns, rows)


def draw_curves(axes: Any, x_label: str, y_label: str, curves: Sequence[Curve], *, percent: bool = False) -> None:
    """Draw curves into axes; with ``percent``, the vertical one reaches from 0 to 100."""
    for position, curve in enumerate(curves):
        ends = None
        if curve.intervals:
            # Without a sign: rounding may put an end on the wrong side of its value.
            ends = np.abs(np.transpose(curve.intervals) - np.asarray(curve.y))
        # matplotlib leaves names out of the legend that begin with an underscore.
        label = f" {curve.name}" if curve.name.startswith("_") else curve.name
        axes.errorbar(curve.x, curve.y, yerr=ends, **{"label": label, **_look(curve, position), **curve.look})

    places = [x for curve in curves for x in curve.x]
    heights = [y for curve in curves for y in curve.y if math.isfinite(y)]
    axes.set(xlabel=x_label, ylabel=y_label, xlim=(0, 1.03 * max(places, default=0.0) or 1.0))
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.xaxis.set_major_formatter(_short(places))
    axes.yaxis.set_major_formatter(_short(heights))
    if percent:
        axes.set_ylim(-4, 104)
    elif heights and 0 <= min(heights) < 0.6 * max(heights):
        # Where that hides nothing, heights compare.
        axes.set_ylim(bottom=0)


def _look(curve: Curve, position: int) -> dict[str, Any]:
    """Return the look of a curve by its series; 36 looks differ."""
    series = position if curve.series is None else curve.series
    look: dict[str, Any] = {"color": SERIES[series % len(SERIES)], "marker": _MARKERS[series % len(_MARKERS)]}
    if curve.intervals:
        return look | {"linestyle": "", "markersize": 5, "capsize": 3, "zorder": 3}
    look |= {"linestyle": _DASHES[(series + series // len(SERIES)) % len(_DASHES)], "markersize": 3.5}
    # A point between two gaps is no line.
    return look if len(curve.x) <= _MAX_MARKERS else look | {"marker": ""}


def _means(values: Sequence[float], each: int) -> list[float]:
    """Return the means of so many neighbours, of their finite values."""
    whole = np.pad(np.asarray(values, np.float64), (0, -len(values) % each), constant_values=np.nan)
    means = np.ma.masked_invalid(whole.reshape(-1, each)).mean(axis=1)
    return means.filled(np.nan).tolist()


def _rows(curves: Sequence[Curve]) -> list[tuple[str, ...]]:
    rows = []
    for curve in curves:
        intervals = [f"{_number(lower)} to {_number(upper)}" for lower, upper in curve.intervals]
        for x, y, interval in zip(curve.x, curve.y, intervals or [""] * len(curve.x), strict=True):
            rows.append((curve.name, _number(x), _number(y), interval))
    return rows


def _short(values: Sequence[float]) -> Any:
    """Return a formatter for the numbers of an axis: with k and M for large ones."""
    is_large = any(abs(value) >= 10_000 for value in values)
    return EngFormatter(sep="") if is_large else FuncFormatter(lambda value, _: f"{value:.6g}")


def _number(value: float) -> str:
    if not math.isfinite(value):
        return NOTHING
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"
