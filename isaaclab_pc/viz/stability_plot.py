# SPDX-License-Identifier: BSD-3-Clause
"""The picture of a stability measurement: failures, scripted success and cost over the physics settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Normalize, SymLogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from isaaclab_pc.physics.stability import Cell

__all__ = ["save_stability_plot"]

_COLUMN = "position_iterations"
_CHOSEN_COLOR = "tab:green"


class _Map(NamedTuple):
    """One of the maps."""

    label: str
    """Headline."""

    colors: str
    """Matplotlib's colour map."""

    value: Callable[[Cell], float | None]
    """What the colour shows; None leaves the field empty."""

    text: Callable[[Cell], str]
    """What is written in the field."""

    norm: Any = None
    """Matplotlib's scale of the colours; None is linear between the extremes."""


def save_stability_plot(cells: Sequence[Cell], chosen: Cell | None, title: str, path: Path) -> None:
    """Draw three maps, with the iterations to the right and the time step or substeps downwards.

    Left: failures per million environment steps; "<" is the 95 % bound where none was seen. Middle: success of the
    scripted policy, where the task has one. Right: what 1000 environment steps cost. A star marks a setting whose
    measurement is spoiled.

    Args:
        cells: What was measured, at least one.
        chosen: The cheapest stable setting, which gets a frame.
        title: Headline.
        path: PNG file to write.
    """
    norm = SymLogNorm(linthresh=1.0, vmin=0.0, vmax=1e6)
    maps = [_Map("failures per million env steps", "Reds", lambda c: c.failures_per_million, _failures, norm)]
    if any(cell.success is not None for cell in cells):
        maps.append(
            _Map("scripted success [%]", "Greens", _success, lambda c: f"{_success(c) or 0:.0f}", Normalize(0.0, 100.0))
        )
    maps.append(_Map("seconds per 1000 env steps", "Blues", lambda c: c.cost, lambda c: f"{c.cost:.2f}"))

    row_name = next((name for cell in cells for name in cell.settings if name != _COLUMN), "dt")
    rows = _values(cells, row_name)
    figure = Figure(figsize=(4.6 * len(maps), 1.6 + 0.7 * len(rows)), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, shown in zip(figure.subplots(1, len(maps)), maps, strict=True):
        _draw(axes, cells, chosen, row_name, shown)
    figure.suptitle(title)
    figure.savefig(path, dpi=120)


def _values(cells: Sequence[Cell], name: str) -> list[float | None]:
    """Return the values of a setting in the order they were measured in; [None] where the user fixed it."""
    return list(dict.fromkeys(cell.settings.get(name) for cell in cells))


def _draw(axes: Any, cells: Sequence[Cell], chosen: Cell | None, row_name: str, shown: _Map) -> None:
    rows = _values(cells, row_name)
    columns = _values(cells, _COLUMN)
    image = np.full((len(rows), len(columns)), np.nan)
    for cell in cells:
        row = rows.index(cell.settings.get(row_name))
        column = columns.index(cell.settings.get(_COLUMN))
        measured = shown.value(cell) if cell.env_steps else None
        image[row, column] = np.nan if measured is None else measured

        label = "crash"
        if cell.env_steps:
            label = shown.text(cell) + ("*" if cell.note else "")
        box = {"boxstyle": "round", "facecolor": "white", "alpha": 0.7, "edgecolor": "none"}
        axes.text(column, row, label, ha="center", va="center", fontsize="small", bbox=box)
        if cell is chosen:
            frame = Rectangle(
                (column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor=_CHOSEN_COLOR, linewidth=3, zorder=3
            )
            axes.add_patch(frame)

    axes.imshow(image, aspect="auto", cmap=shown.colors, norm=shown.norm)
    axes.set_xticks(range(len(columns)), [_tick(value) for value in columns])
    axes.set_yticks(range(len(rows)), [_tick(value) for value in rows])
    axes.set_xlabel(_COLUMN.replace("_", " "))
    axes.set_ylabel("dt [s]" if row_name == "dt" else row_name)
    axes.set_title(shown.label, fontsize="medium")


def _tick(value: float | None) -> str:
    return "as given" if value is None else f"{value:.4g}"


def _success(cell: Cell) -> float | None:
    return None if cell.success is None else 100 * cell.success


def _failures(cell: Cell) -> str:
    bound = cell.upper_bound_per_million
    rate = cell.failures_per_million
    return f"< {bound:.0f}" if bound is not None else f"{rate or 0:.0f}"
