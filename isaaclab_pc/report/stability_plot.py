# SPDX-License-Identifier: BSD-3-Clause
"""The picture of a stability measurement: failures, the expert's success and cost over the physics settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any

from isaaclab_pc.physics.stability import Cell
from isaaclab_pc.report.drawing import GOOD, INK, save_png
from isaaclab_pc.report.run_figures import Curve, draw_curves

__all__ = ["save_stability_plot"]

_ITERATIONS = "position_iterations"
_FAILURES = "failures per million env steps, 95 % bound"
_SUCCESS = "expert's success [%]"
_MARK = {"linestyle": "", "markersize": 12, "markeredgewidth": 2, "markerfacecolor": "none"}


def save_stability_plot(cells: Sequence[Cell], chosen: Cell | None, title: str, path: Path) -> None:
    """Draw failures, the expert's success where there is one, and cost over the solver's iterations as a PNG file.

    Each time step, or number of substeps, is a curve. Where no failure was seen, a bar reaches to the 95 % bound. A
    cross marks a setting with a note, such as dropped contacts; one that crashed is missing.

    Args:
        cells: The measurements, at least one.
        chosen: The cheapest stable setting, which gets a ring.
        title: Headline.
        path: File to write.
    """
    panels: list[tuple[str, Callable[[Cell], float | None]]] = [
        (_FAILURES, lambda cell: cell.failures_per_million),
        (_SUCCESS, lambda cell: None if cell.success is None else 100 * cell.success),
        ("seconds per 1000 env steps", lambda cell: cell.cost),
    ]
    if all(cell.success is None for cell in cells):
        del panels[1]

    def draw(grid: Any) -> None:
        for axes, (label, value) in zip(grid.flat, panels, strict=True):
            x_label, curves = _curves(cells, chosen, value, bounded=label == _FAILURES)
            draw_curves(axes, x_label, label, curves, y_range="percent" if label == _SUCCESS else "zero")
            if label == _FAILURES:
                axes.set_yscale("symlog", linthresh=10)
                axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
                axes.set_ylim(bottom=-1)

    save_png(draw, path, title, (4.6 * len(panels), 4.0), (1, len(panels)))


def _curves(
    cells: Sequence[Cell], chosen: Cell | None, value: Callable[[Cell], float | None], *, bounded: bool
) -> tuple[str, list[Curve]]:
    """Return the label of the horizontal axis, and a curve for each value of the other setting that was varied."""
    names = list(dict.fromkeys(name for cell in cells for name in cell.settings)) or [_ITERATIONS]
    across = _ITERATIONS if _ITERATIONS in names else names[0]
    other = next((name for name in names if name != across), "")
    measured = [cell for cell in cells if cell.env_steps]

    def curve(name: str, those: Sequence[Cell], look: Mapping[str, Any] = MappingProxyType({})) -> Curve:
        points = sorted(those, key=lambda cell: cell.settings.get(across, 0))
        heights = [value(cell) or 0.0 for cell in points]
        upper = [cell.upper_bound_per_million or height for cell, height in zip(points, heights, strict=True)]
        intervals = list(zip(heights, upper, strict=True)) if bounded and not look else ()
        places = [cell.settings.get(across, 0) for cell in points]
        return Curve(name, places, heights, intervals, {"linestyle": "-", **look})

    curves = [
        curve(f"{other} {setting:.4g}" if setting is not None else "measured", [*those])
        for setting, those in groupby(measured, lambda cell: cell.settings.get(other))
    ]
    unusable = [cell for cell in measured if cell.note]
    if unusable:
        curves.append(curve("unusable", unusable, {**_MARK, "marker": "x", "color": INK}))
    if chosen is not None:
        curves.append(curve("cheapest stable", [chosen], {**_MARK, "marker": "o", "color": GOOD}))
    return across.replace("_", " "), curves
