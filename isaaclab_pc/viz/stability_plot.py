# SPDX-License-Identifier: BSD-3-Clause
"""The picture of a stability measurement: failures, the expert's success and cost over the physics settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.colors import Normalize, SymLogNorm
from matplotlib.patches import Rectangle

from isaaclab_pc.physics.stability import Cell
from isaaclab_pc.viz.drawing import png_figure

__all__ = ["save_stability_plot"]

_COLUMN = "position_iterations"
"""The setting that grows to the right."""

_CHOSEN_COLOR = "tab:green"


class _Map(NamedTuple):
    """One of the maps: a field for each setting, with the time step or substeps downwards."""

    label: str
    """Headline."""

    colors: str
    """Matplotlib's colour map."""

    value: Callable[[Cell], float | None]
    """The number that the field's colour shows; None leaves it white."""

    text: Callable[[Cell], str]
    """The text in the field."""

    norm: Any = None
    """Matplotlib's scale of the colours; None is linear between the extremes."""


def save_stability_plot(cells: Sequence[Cell], chosen: Cell | None, title: str, path: Path) -> None:
    """Draw up to three maps, with the iterations to the right and the time step or substeps downwards.

    Left: failures per million environment steps; "<" is the 95 % bound where none was seen. Middle: success of the
    expert, if the task has one. Right: seconds per 1000 environment steps. A star marks a setting that has a
    note, such as dropped contacts.

    Args:
        cells: What was measured, at least one.
        chosen: The cheapest stable setting, which gets a frame.
        title: Headline.
        path: PNG file to write.
    """
    maps = _maps(cells)
    row_name = next((name for cell in cells for name in cell.settings if name != _COLUMN), "dt")
    rows = _values(cells, row_name)

    with png_figure(path, (4.6 * len(maps), 1.6 + 0.7 * len(rows))) as figure:
        for axes, shown in zip(figure.subplots(1, len(maps)), maps, strict=True):
            _draw(axes, cells, chosen, row_name, shown)
        figure.suptitle(title)


def _maps(cells: Sequence[Cell]) -> list[_Map]:
    failures_norm = SymLogNorm(linthresh=1.0, vmin=0.0, vmax=1e6)
    failures = _Map(
        "failures per million env steps", "Reds", lambda cell: cell.failures_per_million, _failures_text, failures_norm
    )
    success = _Map("expert's success [%]", "Greens", _success_percent, _success_text, Normalize(0.0, 100.0))
    cost = _Map("seconds per 1000 env steps", "Blues", lambda cell: cell.cost, lambda cell: f"{cell.cost:.2f}")

    has_success = any(cell.success is not None for cell in cells)
    return [failures, success, cost] if has_success else [failures, cost]


def _values(cells: Sequence[Cell], name: str) -> list[float | None]:
    """Return the values of a setting in the order in which they were measured; [None] if the user fixed it."""
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


def _success_percent(cell: Cell) -> float | None:
    return None if cell.success is None else 100 * cell.success


def _success_text(cell: Cell) -> str:
    return f"{_success_percent(cell) or 0:.0f}"


def _failures_text(cell: Cell) -> str:
    bound = cell.upper_bound_per_million
    if bound is not None:
        return f"< {bound:.0f}"
    return f"{cell.failures_per_million or 0:.0f}"
