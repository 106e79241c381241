# SPDX-License-Identifier: BSD-3-Clause
"""Figures of matplotlib as SVG inside a page: its text stays text, its colours follow the page's theme."""

from __future__ import annotations

import html
import io
import math
import re
import warnings
from collections.abc import Callable
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from isaaclab_pc.viz.drawing import PLAIN_TEXT

__all__ = ["BAD", "GOOD", "INK", "LINE", "MUTED", "SERIES", "draw_svg", "legend_above"]

INK = "#a0a001"
"""Text, and what matters most."""

MUTED = "#a0a002"
"""Axes, ticks and notes."""

LINE = "#a0a003"
"""The grid."""

GOOD = "#a0a004"
"""Colour of the chosen trial, and of success."""

BAD = "#a0a005"
"""Limits, and what failed."""

SERIES = tuple(f"#a0a01{index}" for index in range(6))
"""Colours of up to six curves, told apart by everybody; a dash pattern of its own for each stands in the drawings."""

_VARIABLES = {INK: "--ink", MUTED: "--muted", LINE: "--line", GOOD: "--good", BAD: "--bad"} | {
    color: f"--series-{index + 1}" for index, color in enumerate(SERIES)
}
"""CSS variables that the page defines for both of its themes, by the colour that stands for each while it is drawn."""

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    **PLAIN_TEXT,
    "font.family": "sans-serif",
    "font.size": 9.5,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": MUTED,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.linewidth": 0.8,
    "grid.color": LINE,
    "grid.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "text.color": INK,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "legend.labelcolor": INK,
    "figure.facecolor": "none",
    "savefig.dpi": 150,
}

_LEGEND_LETTERS = 62
"""Letters of the legend's size that are about as wide as a figure."""

_LEGEND_SAMPLE = 7
"""Width of a sample of a curve, and of the gap behind its name [letters]."""

_LEGEND_ROW = 0.2
"""Height of a row of the legend [inch]."""


def legend_above(axes: Any) -> None:
    """Put a legend above the axes, where it covers nothing; the figure grows by its height.

    Args:
        axes: matplotlib's axes; whatever has a label in them is named, by the beginning of a
            label that is longer than the figure is wide.
    """
    handles, names = axes.get_legend_handles_labels()
    most = _LEGEND_LETTERS - _LEGEND_SAMPLE
    labels = [name if len(name) <= most else f"{name[: most - 1]}…" for name in names]
    widest = max(map(len, labels)) + _LEGEND_SAMPLE
    columns = min(max(_LEGEND_LETTERS // widest, 1), len(labels))
    figure = axes.figure
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + _LEGEND_ROW * math.ceil(len(labels) / columns))
    axes.legend(handles, labels, loc="lower left", bbox_to_anchor=(0.0, 1.02), ncols=columns, borderaxespad=0.0)


def draw_svg(
    draw: Callable[[Any], None],
    key: str,
    label: str,
    size: tuple[float, float] = (4.6, 2.8),
    panels: tuple[int, int] = (1, 1),
) -> str:
    """Draw a figure.

    Args:
        draw: Draws into matplotlib's axes, or an array of them, in the colours of this module.
        key: Name of the figure, which no other figure of the page has: its ids begin with it.
        label: What the figure shows, for those who do not see it.
        size: Width and height [inch].
        panels: Rows and columns of axes.

    Returns:
        An ``<svg>`` element that scales with its parent. Its colours are CSS variables of the page.
    """
    with mpl.rc_context({**_STYLE, "svg.hashsalt": key}), warnings.catch_warnings():
        # A letter that matplotlib's own font lacks is the browser's to draw.
        warnings.filterwarnings("ignore", message="Glyph")
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure.subplots(*panels))
        buffer = io.StringIO()
        # Without these entries there is no date in it, and the same run gives the same page.
        figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))

    return _for_page(buffer.getvalue(), key, label)


def _for_page(svg: str, key: str, label: str) -> str:
    """Make a file of matplotlib's an element of a page."""
    body = svg[svg.index("<svg") :]
    size = re.search(r'viewBox="[^"]+"', body)
    assert size is not None
    body = body[body.index(">") + 1 :].strip()

    # A style element would hold for the whole page; metadata and the names of groups only make it longer.
    body = re.sub(r"<(metadata|style)\b.*?</\1>", "", body, flags=re.DOTALL)
    body = re.sub(r'<g id="[^"]*"', "<g", body)
    body = re.sub(r" font-family: [^;]*;", "", body)

    # Ids are unique in a page, and those of two figures may be the same.
    body = re.sub(r'(\bid="|url\(#)', rf"\1{key}-", body).replace('xlink:href="#', f'href="#{key}-')
    body = re.sub("|".join(_VARIABLES), lambda match: f"var({_VARIABLES[match[0]]})", body)
    return f'<svg {size[0]} role="img" aria-label="{html.escape(label)}">{body}'
