# SPDX-License-Identifier: BSD-3-Clause
"""The figures of a run's report, each with the numbers that it shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator

from isaaclab_pc.viz.drawing import legend_label
from isaaclab_pc.viz.svg_figure import BAD, INK, LINE, SERIES, draw_svg, legend_above

__all__ = [
    "MOST_POINTS",
    "Interval",
    "Line",
    "PageFigure",
    "Span",
    "bar_figure",
    "curve_figure",
    "interval_figure",
    "stacked_figure",
    "time_line_figure",
    "time_unit",
]

MOST_POINTS = 120
"""Points of a curve, and rows of its table; a longer one is drawn as the means of neighbours."""

_FEW_POINTS = 40
"""Curves of no more points show each of them."""

_MOST_BARS = 40
_DASHES = ("-", "--", "-.", ":", (0, (6, 1.5, 1, 1.5, 1, 1.5)), (0, (1, 1)))
_MARKERS = "osD^vP"


@dataclass(frozen=True)
class PageFigure:
    """A figure of the page, and the table beside it."""

    key: str
    """Its name in the page."""

    title: str
    """Headline."""

    svg: str
    """The picture, an ``<svg>`` element."""

    columns: tuple[str, ...]
    """Headings of the table."""

    rows: tuple[tuple[str, ...], ...]
    """The table: what the picture shows, as text."""

    note: str = ""
    """Caption that explains how to read it; empty where none is needed."""


@dataclass(frozen=True)
class Line:
    """One curve."""

    name: str
    """For legend and table."""

    x: Sequence[float]
    """Rising."""

    y: Sequence[float]
    """As many; a value that is not finite is a gap."""


@dataclass(frozen=True)
class Interval:
    """A measured value, and how sure it is."""

    name: str
    """For legend and table; those of the same name look the same."""

    x: float
    y: float
    lower: float
    """Lower end of its 95 % interval."""

    upper: float
    """Upper end."""


@dataclass(frozen=True)
class Span:
    """Something on a time line."""

    name: str
    """Its row."""

    begin: float
    """Time from the start of the run [s]."""

    end: float
    """Time of its end [s]; the same as ``begin`` for what has no duration."""

    text: str = ""
    """Written beside it."""

    is_bad: bool = False
    """Whether it is drawn as a failure."""


def time_unit(seconds: float) -> tuple[str, float]:
    """Return the unit in which a duration is best drawn, and its seconds.

    Args:
        seconds: The longest duration of the figure.
    """
    for name, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 3 * size:
            return name, size
    return "s", 1.0


def curve_figure(
    key: str,
    title: str,
    x_label: str,
    y_label: str,
    lines: Sequence[Line],
    intervals: Sequence[Interval] = (),
    *,
    percent: bool = False,
) -> PageFigure:
    """Draw curves, and measured values with their intervals.

    Args:
        key: Name in the page.
        title: Headline.
        x_label: What is to the right.
        y_label: What is upwards.
        lines: At most six.
        intervals: Drawn as marks with bars.
        percent: Whether values are shares, shown in percent.

    Returns:
        The figure. A curve of more than :data:`MOST_POINTS` points is drawn as means of neighbours.
    """
    factor = 100.0 if percent else 1.0
    each = max((math.ceil(len(line.x) / MOST_POINTS) for line in lines), default=1)
    drawn = [Line(line.name, _means(line.x, each), [factor * y for y in _means(line.y, each)]) for line in lines]
    marks = [Interval(i.name, i.x, factor * i.y, factor * i.lower, factor * i.upper) for i in intervals]

    def draw(axes: Any) -> None:
        for index, line in enumerate(drawn):
            # A point between two gaps is no line.
            marker = _MARKERS[index % len(_MARKERS)] if len(line.x) <= _FEW_POINTS else None
            style = {"color": SERIES[index % len(SERIES)], "linestyle": _DASHES[index % len(_DASHES)]}
            axes.plot(line.x, line.y, label=legend_label(line.name), marker=marker, markersize=3.5, **style)
        _draw_intervals(axes, marks, first=len(drawn) if len(drawn) > 1 else 1)

        axes.set(xlabel=x_label, ylabel=y_label)
        right = max([x for line in drawn for x in line.x] + [mark.x for mark in marks], default=1.0)
        axes.set_xlim(0, 1.03 * right or 1.0)
        axes.xaxis.set_major_formatter(_short([x for line in drawn for x in line.x]))
        axes.xaxis.set_major_locator(MaxNLocator(6))
        if percent:
            axes.set_ylim(-4, 104)
        else:
            heights = [y for line in drawn for y in line.y if math.isfinite(y)]
            axes.yaxis.set_major_formatter(_short(heights))
            if heights and 0 <= min(heights) < 0.6 * max(heights):
                # Where that hides nothing, heights compare.
                axes.set_ylim(bottom=0)
        if len(drawn) + len(marks) > 1:
            legend_above(axes)

    note = f"Each point is the mean of {each} iterations." if each > 1 else ""
    columns, rows = _curve_table(x_label, y_label, drawn, marks)
    return PageFigure(key, title, draw_svg(draw, key, title), columns, rows, note)


def interval_figure(key: str, title: str, x_label: str, intervals: Sequence[Interval]) -> PageFigure:
    """Draw shares with their intervals below each other.

    Args:
        key: Name in the page.
        title: Headline.
        x_label: What they are.
        intervals: From the top, by their names; ``x`` has no meaning.
    """

    def draw(axes: Any) -> None:
        for row, mark in enumerate(intervals):
            ends = ([100 * max(mark.y - mark.lower, 0.0)], [100 * max(mark.upper - mark.y, 0.0)])
            style = {"fmt": _MARKERS[row % len(_MARKERS)], "color": SERIES[row % len(SERIES)], "capsize": 3}
            axes.errorbar(100 * mark.y, row, xerr=ends, **style)
        axes.set_yticks(range(len(intervals)), [mark.name for mark in intervals], color=INK)
        axes.set(xlabel=x_label, xlim=(-3, 103), ylim=(len(intervals) - 0.4, -0.6))
        axes.grid(visible=False, axis="y")

    rows = tuple(
        (mark.name, _number(100 * mark.y), f"{_number(100 * mark.lower)} to {_number(100 * mark.upper)}")
        for mark in intervals
    )
    svg = draw_svg(draw, key, title, (4.6, 0.8 + 0.34 * len(intervals)))
    return PageFigure(key, title, svg, ("run", x_label, "95 % interval"), rows)


def _means(values: Sequence[float], each: int) -> list[float]:
    """Return the means of so many neighbours, of their finite values."""
    means = []
    for start in range(0, len(values), each):
        finite = [value for value in values[start : start + each] if math.isfinite(value)]
        means.append(sum(finite) / len(finite) if finite else math.nan)
    return means


def _draw_intervals(axes: Any, marks: Sequence[Interval], first: int) -> None:
    for index, name in enumerate(dict.fromkeys(mark.name for mark in marks)):
        those = [mark for mark in marks if mark.name == name]
        heights = [mark.y for mark in those]
        # An end that rounding put on the wrong side of its value has no length.
        below = [max(mark.y - mark.lower, 0.0) for mark in those]
        above = [max(mark.upper - mark.y, 0.0) for mark in those]
        color = SERIES[(first + index) % len(SERIES)]
        style = {"fmt": _MARKERS[index % len(_MARKERS)], "color": color, "capsize": 3, "markersize": 5, "zorder": 3}
        axes.errorbar([mark.x for mark in those], heights, yerr=(below, above), label=legend_label(name), **style)


def _curve_table(
    x_label: str, y_label: str, lines: Sequence[Line], marks: Sequence[Interval]
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    if len({tuple(line.x) for line in lines}) == 1 and not marks:
        columns = (x_label, *(line.name for line in lines))
        numbers = zip(lines[0].x, *(line.y for line in lines), strict=True)
        return columns, tuple(tuple(map(_number, row)) for row in numbers)

    rows = [(line.name, _number(x), _number(y), "") for line in lines for x, y in zip(line.x, line.y, strict=True)]
    for mark in marks:
        interval = f"{_number(mark.lower)} to {_number(mark.upper)}"
        rows.append((mark.name, _number(mark.x), _number(mark.y), interval))
    keep = 4 if marks else 3
    return ("curve", x_label, y_label, "95 % interval")[:keep], tuple(row[:keep] for row in rows)


def stacked_figure(key: str, title: str, x_label: str, y_label: str, parts: Sequence[Line]) -> PageFigure:
    """Draw parts of a whole as bars on top of each other.

    Args:
        key: Name in the page.
        title: Headline.
        x_label: What is to the right.
        y_label: What is upwards.
        parts: With the same ``x``, from the bottom.

    Returns:
        The figure. Many bars are drawn as means of neighbours.
    """
    each = max(math.ceil(len(parts[0].x) / _MOST_BARS), 1)
    drawn = [Line(part.name, _means(part.x, each), _means(part.y, each)) for part in parts]

    def draw(axes: Any) -> None:
        x = drawn[0].x
        width = 0.8 * (x[1] - x[0]) if len(x) > 1 else 0.8
        bottom = np.zeros(len(x))
        for part, color, hatch in zip(drawn, SERIES, ("", "////", "...", "xxx"), strict=False):
            height = np.nan_to_num(part.y)
            style = {"color": color, "label": part.name, "hatch": hatch, "edgecolor": LINE, "linewidth": 0.3}
            axes.bar(x, height, width, bottom=bottom, **style)
            bottom += height
        axes.set(xlabel=x_label, ylabel=y_label, ylim=(0, 1.05 * max(float(bottom.max()), 1e-9)))
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.grid(visible=False, axis="x")
        legend_above(axes)

    note = f"Each bar is the mean of {each} iterations." if each > 1 else ""
    rows = tuple(tuple(map(_number, row)) for row in zip(drawn[0].x, *(part.y for part in drawn), strict=True))
    return PageFigure(key, title, draw_svg(draw, key, title), (x_label, *(part.name for part in drawn)), rows, note)


def bar_figure(key: str, title: str, x_label: str, counts: Sequence[tuple[str, int]]) -> PageFigure:
    """Draw counts by name as bars to the right.

    Args:
        key: Name in the page.
        title: Headline.
        x_label: What is counted.
        counts: From the top.
    """

    def draw(axes: Any) -> None:
        names = [name for name, _ in counts]
        numbers = [number for _, number in counts]
        bars = axes.barh(range(len(names)), numbers, 0.6, color=SERIES[1])
        axes.bar_label(bars, [f"{number:,}" for number in numbers], padding=3, color=INK)
        axes.set_yticks(range(len(names)), names, color=INK)
        axes.set(xlabel=x_label, xlim=(0, 1.2 * max(*numbers, 1)), ylim=(len(names) - 0.4, -0.6))
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.grid(visible=False, axis="y")

    size = (4.6, 0.7 + 0.28 * len(counts))
    rows = tuple((name, f"{number:,}") for name, number in counts)
    return PageFigure(key, title, draw_svg(draw, key, title, size), ("", x_label), rows)


def time_line_figure(key: str, title: str, spans: Sequence[Span], end: float) -> PageFigure:
    """Draw what befell a run over its time.

    Args:
        key: Name in the page.
        title: Headline.
        spans: At least one; their rows stand in the order in which they first come.
        end: Time of the run's end [s].
    """
    unit, size = time_unit(max(end, *(span.end for span in spans)))
    names = list(dict.fromkeys(span.name for span in spans))

    def draw(axes: Any) -> None:
        right = max(end, *(span.end for span in spans)) / size
        for span in spans:
            row = names.index(span.name)
            color = BAD if span.is_bad else SERIES[0]
            if span.end > span.begin:
                axes.barh(row, (span.end - span.begin) / size, 0.34, left=span.begin / size, color=color)
            else:
                axes.scatter(span.begin / size, row, color=color, marker="X" if span.is_bad else "o", zorder=3)
            is_late = span.begin / size > 0.6 * right
            place = {"ha": "right" if is_late else "left", "va": "bottom", "fontsize": 8.5, "color": INK}
            axes.text(span.begin / size, row - 0.22, span.text, **place)
        axes.set_yticks(range(len(names)), names, color=INK)
        axes.set(xlabel=f"time from the start [{unit}]", xlim=(0, 1.02 * right), ylim=(len(names) - 0.6, -0.8))
        axes.grid(visible=False, axis="y")

    rows = tuple((span.name, _number(span.begin), _number(span.end - span.begin), span.text) for span in spans)
    columns = ("what", "begin [s]", "duration [s]", "")
    return PageFigure(key, title, draw_svg(draw, key, title, (4.6, 0.8 + 0.5 * len(names))), columns, rows)


def _short(values: Sequence[float]) -> Any:
    """Return what writes the numbers of an axis: with k and M for large ones."""
    is_large = any(abs(value) >= 10_000 for value in values if math.isfinite(value))
    return EngFormatter(sep="") if is_large else FuncFormatter(lambda value, _: f"{value:.6g}")


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "–"  # noqa: RUF001 (a dash in a table, for people)
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"
