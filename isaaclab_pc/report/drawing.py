# SPDX-License-Identifier: BSD-3-Clause
"""Draw with matplotlib: into a page as SVG that follows the page's theme, or into a PNG file. Both look alike."""

import html
import io
import math
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.rcsetup import cycler

HEIGHT_SPAN = 0.3
"""Heights above the environment's origin that get different colours [m]: what a gripper works at on a table."""

# Places in matplotlib's colour cycle, which each medium fills with its own colours.
SERIES = tuple(f"C{index}" for index in range(6))
"""Colours of curves."""

INK = "C6"
"""Text, and what matters most."""

MUTED = "C7"
"""Axes, ticks and notes."""

LINE = "C8"
"""The grid."""

GOOD = "C9"
"""The chosen one, and success."""

BAD = "C10"
"""Limits, and what failed."""

_VARIABLES = (*(f"--series-{index + 1}" for index in range(6)), "--ink", "--muted", "--line", "--good", "--bad")
"""The page's CSS variables, in the order of the cycle."""

_STAND_INS = tuple(f"#a0a0{index:02d}" for index in range(len(_VARIABLES)))
"""Colours that stand for the variables while a figure is drawn."""

_ON_WHITE = (
    *("#0067a5", "#bf4a00", "#00795c", "#8f3f8a", "#6b5b00", "#4c5663"),
    *("#161a21", "#596372", "#dce0e6", "#00714f", "#b3261e"),
)
"""The colours of the page's light theme, for files."""

_LEGEND_LETTERS = 13.5
"""Letters of the legend's size on an inch of a figure's width."""

_LEGEND_SAMPLE = 7
"""Width of a sample of a curve, and of the gap behind its name [letters]."""

_LEGEND_ROW = 0.2
"""Height of a row of the legend [inch]."""


def draw_svg(
    draw: Callable[[Any], None],
    key: str,
    label: str,
    size: tuple[float, float] = (4.6, 2.8),
    panels: tuple[int, int] = (1, 1),
) -> str:
    """Draw a figure of ``size`` [inch] as an ``<svg>`` element that scales with its parent, in the page's CSS colours.

    ``draw`` gets the axes, or the array of them where there are several ``panels`` (rows, columns). The ids begin with
    ``key``, which is unique in the page; ``label`` describes the figure for those who do not see it.
    """
    with mpl.rc_context({**_style(_STAND_INS), "svg.hashsalt": key}), warnings.catch_warnings():
        # A letter that matplotlib's own font lacks is the browser's to draw.
        warnings.filterwarnings("ignore", message="Glyph")
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure.subplots(*panels))
        buffer = io.StringIO()
        # Without these entries there is no date in it, and the same run gives the same page.
        figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return _for_page(buffer.getvalue(), key, label)


def save_png(
    draw: Callable[[Any], None], path: Path, title: str, size: tuple[float, float], panels: tuple[int, int] = (1, 1)
) -> None:
    """Draw a figure of ``panels`` (rows, columns) and ``size`` [inch] into a PNG file; ``draw`` gets its axes."""
    with mpl.rc_context({**_style(_ON_WHITE), "figure.facecolor": "white"}):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure.subplots(*panels, squeeze=False))
        figure.suptitle(title)
        figure.savefig(path, dpi=120)


def legend_above(axes: Any) -> None:
    """Put a legend above the axes, labels shortened to their width; a figure of one panel grows by its height."""
    handles, names = axes.get_legend_handles_labels()
    figure = axes.figure
    width, height = figure.get_size_inches()
    rows, columns = axes.get_subplotspec().get_gridspec().get_geometry()
    room = round(_LEGEND_LETTERS * width / columns)
    most = room - _LEGEND_SAMPLE
    labels = [name if len(name) <= most else f"{name[: most - 1]}…" for name in names]
    per_row = min(max(room // (max(map(len, labels)) + _LEGEND_SAMPLE), 1), len(labels))
    if rows * columns == 1:
        figure.set_size_inches(width, height + _LEGEND_ROW * math.ceil(len(labels) / per_row))
    axes.legend(handles, labels, loc="lower left", bbox_to_anchor=(0.0, 1.02), ncols=per_row, borderaxespad=0.0)


def _style(colors: Sequence[str]) -> dict[Any, Any]:
    """Return matplotlib's settings for a medium with these colours, in the order of the cycle."""
    ink, muted, line = colors[6:9]
    return {
        "axes.prop_cycle": cycler(color=colors),
        "svg.fonttype": "none",
        # Names come from files and folders of others: a dollar sign in one is no formula.
        "text.parse_math": False,
        "font.family": "sans-serif",
        "font.size": 9.5,
        "axes.edgecolor": muted,
        "axes.labelcolor": muted,
        "axes.facecolor": "none",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.linewidth": 0.8,
        "axes.titlesize": 10.5,
        "axes.titlecolor": ink,
        "grid.color": line,
        "grid.linewidth": 0.8,
        "xtick.color": muted,
        "ytick.color": muted,
        "xtick.major.size": 3,
        "ytick.major.size": 0,
        "text.color": ink,
        "lines.linewidth": 1.8,
        "legend.frameon": False,
        "legend.fontsize": 9,
        "legend.labelcolor": ink,
        "figure.facecolor": "none",
        "savefig.dpi": 150,
    }


def _for_page(svg: str, key: str, label: str) -> str:
    """Turn a file of matplotlib into an element of a page."""
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
    for color, variable in zip(_STAND_INS, _VARIABLES, strict=True):
        body = body.replace(color, f"var({variable})")
    return f'<svg {size[0]} role="img" aria-label="{html.escape(label)}">{body}'
