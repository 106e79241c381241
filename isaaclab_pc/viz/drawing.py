# SPDX-License-Identifier: BSD-3-Clause
"""Helpers that all drawings share: names are shown literally, and colours mean the same heights."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

__all__ = ["HEIGHT_SPAN", "PLAIN_TEXT", "legend_label", "png_figure"]

HEIGHT_SPAN = 0.3
"""Heights above the environment's origin that get different colours [m]: what a gripper works at on a table."""

PLAIN_TEXT: dict[Any, Any] = {"text.parse_math": False}
"""Names come from files and folders of others: a dollar sign in one is no formula."""


def legend_label(name: str) -> str:
    """Return the label of what is to stand in a legend under a name; matplotlib leaves out those that begin with _."""
    return f" {name}" if name.startswith("_") else name


@contextlib.contextmanager
def png_figure(path: Path, size: tuple[float, float]) -> Iterator[Figure]:
    """Give a figure to draw into, and write it at the end of the block.

    Args:
        path: PNG file to write.
        size: Width and height [inch].
    """
    with mpl.rc_context(PLAIN_TEXT):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        yield figure
        figure.savefig(path, dpi=120)
