# SPDX-License-Identifier: BSD-3-Clause
"""Figures of a report, each with a table of its numbers: curves over an axis, and bars in named rows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator

from isaaclab_pc.report.drawing import BAD, INK, LINE, MUTED, SERIES, draw_svg, legend_above

LIMIT: Mapping[str, Any] = {"color": BAD, "linestyle": "--", "marker": ""}
"""Look of a limit."""

TREND: Mapping[str, Any] = {"color": MUTED, "linestyle": "-", "linewidth": 1.2, "marker": ""}
"""Look of a line through measured values."""

YRange = Literal["data", "zero", "percent"]
"""Range of a vertical axis: of the data, with 0 where that hides nothing; from 0 upwards; or from 0 to 100 %."""

Table = tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]
"""Headings and rows."""

_MAX_POINTS = 120
"""Points of a curve, and rows of its table; a longer one is drawn as the means of neighbours."""

_MAX_BARS = 40
"""The same for stacked bars."""

_MAX_MARKERS = 40
"""Curves of no more points mark each of them."""

_DASHES = ("-", "--", "-.", ":", (0, (6, 1.5, 1, 1.5, 1, 1.5)), (0, (1, 1)))
_MARKERS = "osD^vP"

_TEXT_WIDTH = 0.5
"""Width of the text beside a bar, at most, as a part of the longest bar."""


@dataclass(frozen=True)
class PageFigure:
    """A figure of the page, an ``<svg>`` element, and the table of its numbers."""

    key: str
    """Its name, unique in the page."""
    title: str
    svg: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    """Caption that explains how to read it."""


@dataclass(frozen=True)
class Curve:
    """One curve."""

    name: str
    """For legend and table; empty: in no legend."""
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


@dataclass(frozen=True)
class Bar:
    """A bar in a named row."""

    row: str
    begin: float
    end: float
    """The same as ``begin`` for an instant, which is drawn as a mark."""
    text: str = ""
    """Written beside it."""
    color: str = SERIES[0]
    value: float | None = None
    """The value where the bar is its interval."""


def curve_figure(
    key: str,
    title: str,
    x_label: str,
    y_label: str,
    curves: Sequence[Curve],
    *,
    y_range: YRange = "data",
    stacked: bool = False,
    table: Table | None = None,
) -> PageFigure | None:
    """Draw curves, or parts of a whole with the same ``x`` as stacked bars; None without curves.

    Long ones are drawn as means of neighbours. ``table`` has the numbers; None: those of the curves.
    """
    if not curves:
        return None
    most = _MAX_BARS if stacked else _MAX_POINTS
    each = max(1, *(math.ceil(len(curve.x) / most) for curve in curves))
    drawn = [
        curve if curve.intervals else replace(curve, x=_means(curve.x, each), y=_means(curve.y, each))
        for curve in curves
    ]

    def draw(axes: Any) -> None:
        if stacked:
            _draw_stack(axes, x_label, y_label, drawn)
        else:
            draw_curves(axes, x_label, y_label, drawn, y_range=y_range)

    columns, rows = table or _curve_table(x_label, y_label, drawn)
    note = f"Each {'bar' if stacked else 'point'} is the mean of {each} iterations." if each > 1 else ""
    return PageFigure(key, title, draw_svg(draw, key, title), columns, rows, note)


def draw_curves(
    axes: Any, x_label: str, y_label: str, curves: Sequence[Curve], *, y_range: YRange = "data", legend: bool = True
) -> None:
    """Draw curves into axes."""
    for position, curve in enumerate(curves):
        # matplotlib leaves names out of the legend that begin with an underscore.
        label = f" {curve.name}" if curve.name.startswith("_") else curve.name or None
        ends = None
        if curve.intervals:
            # An end that rounding put on the wrong side of its value has no length.
            pairs = zip(curve.y, curve.intervals, strict=True)
            ends = np.array([(max(y - lower, 0.0), max(upper - y, 0.0)) for y, (lower, upper) in pairs]).T
        axes.errorbar(curve.x, curve.y, yerr=ends, label=label, **{**_look(curve, position), **curve.look})

    axes.set(xlabel=x_label, ylabel=y_label)
    widths = [x for curve in curves for x in curve.x]
    axes.set_xlim(0, 1.03 * max(widths, default=0.0) or 1.0)
    axes.xaxis.set_major_formatter(_short(widths))
    axes.xaxis.set_major_locator(MaxNLocator(6))
    heights = [y for curve in curves for y in curve.y if math.isfinite(y)]
    axes.yaxis.set_major_formatter(_short(heights))
    if y_range == "percent":
        axes.set_ylim(-4, 104)
    elif y_range == "zero" or (heights and 0 <= min(heights) < 0.6 * max(heights)):
        # Where that hides nothing, heights compare.
        axes.set_ylim(0, 1.05 * axes.get_ylim()[1])
    if legend and sum(bool(curve.name) for curve in curves) > 1:
        legend_above(axes)


def _look(curve: Curve, position: int) -> dict[str, Any]:
    """Return the look of a curve by its series; 36 looks differ."""
    series = position if curve.series is None else curve.series
    look: dict[str, Any] = {"color": SERIES[series % len(SERIES)], "marker": _MARKERS[series % len(_MARKERS)]}
    if curve.intervals:
        return look | {"linestyle": "", "markersize": 5, "capsize": 3, "zorder": 3}
    look |= {"linestyle": _DASHES[(series + series // len(SERIES)) % len(_DASHES)], "markersize": 3.5}
    # A point between two gaps is no line.
    return look if len(curve.x) <= _MAX_MARKERS else look | {"marker": ""}


def _draw_stack(axes: Any, x_label: str, y_label: str, parts: Sequence[Curve]) -> None:
    x = parts[0].x
    width = 0.8 * (x[1] - x[0]) if len(x) > 1 else 0.8
    bottom = np.zeros(len(x))
    for part, color, hatch in zip(parts, SERIES, ("", "////", "...", "xxx"), strict=False):
        height = np.nan_to_num(part.y)
        style = {"color": color, "label": part.name, "hatch": hatch, "edgecolor": LINE, "linewidth": 0.3}
        axes.bar(x, height, width, bottom=bottom, **style)
        bottom += height
    axes.set(xlabel=x_label, ylabel=y_label, ylim=(0, 1.05 * max(float(bottom.max()), 1e-9)))
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.grid(visible=False, axis="x")
    legend_above(axes)


def _means(values: Sequence[float], each: int) -> list[float]:
    """Return the means of so many neighbours, of their finite values."""
    means = []
    for start in range(0, len(values), each):
        finite = [value for value in values[start : start + each] if math.isfinite(value)]
        means.append(sum(finite) / len(finite) if finite else math.nan)
    return means


def _curve_table(x_label: str, y_label: str, curves: Sequence[Curve]) -> Table:
    """Return one column a curve where all have the same places and no intervals, else one row a value."""
    has_intervals = any(curve.intervals for curve in curves)
    if len({tuple(curve.x) for curve in curves}) == 1 and not has_intervals:
        numbers = zip(curves[0].x, *(curve.y for curve in curves), strict=True)
        return (x_label, *(curve.name for curve in curves)), tuple(tuple(map(_number, row)) for row in numbers)

    rows = []
    for curve in curves:
        intervals = [f"{_number(lower)} to {_number(upper)}" for lower, upper in curve.intervals]
        for x, y, interval in zip(curve.x, curve.y, intervals or [""] * len(curve.x), strict=True):
            rows.append((curve.name, _number(x), _number(y), interval))
    keep = 4 if has_intervals else 3
    return ("curve", x_label, y_label, "95 % interval")[:keep], tuple(row[:keep] for row in rows)


def row_figure(
    key: str,
    title: str,
    x_label: str,
    bars: Sequence[Bar],
    table: Table,
    *,
    right: float | None = None,
    limit: tuple[float, str] | None = None,
    text_above: bool = False,
) -> PageFigure | None:
    """Draw bars in named rows, in the order in which the rows first come; None without bars.

    ``right`` is the end of the axis, None: with room for all bars and their texts. ``limit`` is a value that a line
    marks, and its text. With ``text_above``, texts stand above their bars, not to the right.
    """
    if not bars:
        return None
    names = list(dict.fromkeys(bar.row for bar in bars))
    longest = max(*(bar.end for bar in bars), 0.0, limit[0] if limit else 0.0) or 1.0
    edge = right or 1.25 * longest

    def draw(axes: Any) -> None:
        for bar in bars:
            _draw_bar(axes, bar, names.index(bar.row))
            x, row = bar.end + 0.015 * longest, names.index(bar.row)
            place = {"ha": "left", "va": "center"}
            if text_above:
                x, row = bar.begin, row - 0.22
                place = {"ha": "right" if bar.begin > 0.6 * edge else "left", "va": "bottom", "fontsize": 8.5}
            elif limit is not None and bar.end < limit[0] < bar.end + _TEXT_WIDTH * longest:
                # The line of the limit would go through the text.
                x = limit[0] + 0.015 * longest
            axes.text(x, row, bar.text, color=INK, **place)
        if limit is not None:
            axes.axvline(limit[0], color=BAD, linestyle="--")
            # In a row of its own below the last bar, which may end with the limit.
            axes.text(limit[0] - 0.03 * longest, len(names), limit[1], color=BAD, ha="right", va="center")
        axes.set_yticks(range(len(names)), names, color=INK)
        above, below = (0.8, 0.4) if text_above else (0.6, 0.6)
        axes.set(xlabel=x_label, xlim=(0, edge), ylim=(len(names) - 1 + below + (limit is not None), -above))
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(_short([bar.end for bar in bars]))
        axes.grid(visible=False, axis="y")

    height = 0.8 + (0.5 if text_above else 0.3) * (len(names) + (limit is not None))
    return PageFigure(key, title, draw_svg(draw, key, title, (4.6, height)), *table)


def _draw_bar(axes: Any, bar: Bar, row: int) -> None:
    """Draw a bar, an interval with its value, or the mark of an instant."""
    if bar.value is not None:
        axes.barh(row, bar.end - bar.begin, 0.3, left=bar.begin, color=bar.color, alpha=0.45)
        axes.scatter(bar.value, row, color=bar.color, marker=_MARKERS[row % len(_MARKERS)], zorder=3)
    elif bar.end > bar.begin:
        axes.barh(row, bar.end - bar.begin, 0.5, left=bar.begin, color=bar.color)
    else:
        axes.scatter(bar.begin, row, color=bar.color, marker="X" if bar.color == BAD else "o", zorder=3)


def _short(values: Sequence[float]) -> Any:
    """Return a formatter for the numbers of an axis: with k and M for large ones."""
    is_large = any(abs(value) >= 10_000 for value in values if math.isfinite(value))
    return EngFormatter(sep="") if is_large else FuncFormatter(lambda value, _: f"{value:.6g}")


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "–"  # noqa: RUF001 (a dash in a table, for people)
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"
