# SPDX-License-Identifier: BSD-3-Clause
"""Draw with matplotlib: into a page as SVG that follows the page's theme, or into a PNG file. Both look alike."""

import html
import io
import math
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.rcsetup import cycler

HEIGHT_SPAN = 0.3
"""Heights above the environment's origin that get different colours [m]: what a gripper works at on a table."""

SERIES = ("#0067a5", "#bf4a00", "#00795c", "#8f3f8a", "#6b5b00", "#4c5663")
"""Colours of curves."""

INK = "#161a21"
"""Text, and what matters most."""

MUTED = "#596372"
"""Axes, ticks and notes."""

LINE = "#dce0e6"
"""The grid."""

GOOD = "#00714f"
"""The chosen one, and success."""

BAD = "#b3261e"
"""Limits, and what failed."""

_LIGHT = np.array([-0.3, 0.5, 0.8])
"""Where the light comes from, as the eye sees it."""

_VARIABLES = {
    **{color: f"--series-{number}" for number, color in enumerate(SERIES, start=1)},
    **{INK: "--ink", MUTED: "--muted", LINE: "--line", GOOD: "--good", BAD: "--bad"},
}
"""The page's CSS variable for each colour; its light theme has the same colours."""

_STYLE: dict[Any, Any] = {
    "axes.prop_cycle": cycler(color=SERIES),
    "svg.fonttype": "none",
    # Names come from files and folders of others: a dollar sign in one is no formula.
    "text.parse_math": False,
    "text.color": INK,
    "font.size": 9.5,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": MUTED,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 9,
    "grid.color": LINE,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "savefig.dpi": 150,
}

_LEGEND_LETTERS = 44
"""Letters that a row of a page's legend has room for, beside a sample of a curve."""

_LEGEND_ROW = 0.2
"""Height of a row of the legend [inch]."""


def draw_svg(draw: Callable[[Figure], object], key: str, label: str, size: tuple[float, float] = (4.6, 2.8)) -> str:
    """Draw a figure of ``size`` [inch] as an ``<svg>`` element that scales with its parent, in the page's CSS colours.

    The ids begin with ``key``, which is unique in the page; ``label`` describes the figure for those who do not see it.
    """
    with mpl.rc_context({**_STYLE, "figure.facecolor": "none", "svg.hashsalt": key}), warnings.catch_warnings():
        # A letter that matplotlib's own font lacks is the browser's to draw.
        warnings.filterwarnings("ignore", message="Glyph")
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        buffer = io.StringIO()
        # Without these entries there is no date in it, and the same run gives the same page.
        figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))

    # The opening tag names the size of a file; that of a page scales.
    body = buffer.getvalue().partition("<svg")[2].partition(">")[2]
    # A style element would hold for the whole page; names of groups only make it longer; the letters are the page's.
    body = re.sub(r"<(metadata|style)\b.*?</\1>", "", body, flags=re.DOTALL)
    body = re.sub(r'<g id="[^"]*"', "<g", body)
    body = re.sub(r" font-family: [^;]*;", "", body)
    # Ids are unique in a page, and those of two figures may be the same.
    body = re.sub(r'(\bid="|url\(#)', rf"\1{key}-", body).replace('xlink:href="#', f'href="#{key}-')
    for color, variable in _VARIABLES.items():
        body = body.replace(color, f"var({variable})")
    width, height = 72 * figure.get_size_inches()
    return f'<svg viewBox="0 0 {width:.1f} {height:.1f}" role="img" aria-label="{html.escape(label)}">{body}'


def save_png(draw: Callable[[Figure], object], path: Path, title: str, size: tuple[float, float]) -> None:
    """Draw a figure of ``size`` [inch] into a PNG file."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        figure.suptitle(title)
        figure.savefig(path, dpi=120)


def legend_above(axes: Any) -> None:
    """Put a legend above the axes of a page's figure, which grows by its height; long names are cut."""
    handles, names = axes.get_legend_handles_labels()
    labels = [name if len(name) <= _LEGEND_LETTERS else f"{name[:_LEGEND_LETTERS]}…" for name in names]
    columns = 1 if max(map(len, labels)) > _LEGEND_LETTERS // 2 else 2
    axes.figure.set_figheight(axes.figure.get_figheight() + _LEGEND_ROW * math.ceil(len(labels) / columns))
    axes.legend(handles, labels, loc="lower left", bbox_to_anchor=(0.0, 1.02), ncols=columns, borderaxespad=0.0)


def draw_triangles(axes: Any, corners: np.ndarray, color: np.ndarray) -> None:
    """Draw shaded triangles of one colour, red, green and blue from 0 to 1, into matplotlib's axes, the nearest last.

    ``corners``, (T, 3, 3), are in a frame with x to the right, y up and z towards the eye [m], counterclockwise where
    seen from outside.
    """
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals /= np.linalg.norm(normals, axis=1, keepdims=True).clip(min=1e-12)

    # Those that face away are hidden.
    front = np.flatnonzero(normals[:, 2] > 0.0)
    order = front[np.argsort(corners[front, :, 2].mean(axis=1))]
    light = 0.35 + 0.65 * (normals[order] @ (_LIGHT / np.linalg.norm(_LIGHT))).clip(min=0.0)
    shaded = light[:, None] * color
    axes.add_collection(
        PolyCollection(list(corners[order, :, :2]), facecolors=shaded, edgecolors=shaded, linewidths=0.3)
    )
