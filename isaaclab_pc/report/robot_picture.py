# SPDX-License-Identifier: BSD-3-Clause
"""The picture of an imported arm: what is seen of it, and what collides, in the posture that it starts from."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.spatial.transform import Rotation

from isaaclab_pc.report.drawing import BAD, GOOD, INK, SERIES, draw_triangles, save_png

_TO_EYE = Rotation.from_euler("zx", (-30.0, -70.0), degrees=True).as_matrix()
_COLOR = np.array([0.62, 0.68, 0.76])
_AXES = (BAD, GOOD, SERIES[0])
"""Colours of x, y and z."""


def save_robot_picture(
    solids: Mapping[str, np.ndarray], frames: Mapping[str, np.ndarray], path: Path, title: str
) -> None:
    """Draw solids side by side into a PNG file, each with the same frames.

    ``solids`` are triangles (T, 3, 3), ``frames`` (4, 4), both by name and in metres, with z up.
    """

    def draw(figure: Figure) -> None:
        for axes, (name, triangles) in zip(figure.subplots(1, len(solids)), solids.items(), strict=True):
            draw_triangles(axes, triangles @ _TO_EYE.T, _COLOR)
            for label, frame in frames.items():
                _draw_frame(axes, frame, label)
            axes.set_axis_off()
            axes.set(title=name, aspect="equal")
            axes.autoscale_view()

    save_png(draw, path, title, (4.5 * len(solids), 5.0))


def _draw_frame(axes: Any, frame: np.ndarray, name: str) -> None:
    start = _TO_EYE @ frame[:3, 3]
    for axis, color in enumerate(_AXES):
        end = start + 0.15 * _TO_EYE @ frame[:3, axis]
        axes.plot(*zip(start[:2], end[:2], strict=True), color=color, linewidth=2.0)
        axes.annotate("xyz"[axis], end[:2], color=color, fontsize=8, ha="center", va="center")
    axes.annotate(name, start[:2], (-8.0, -8.0), textcoords="offset points", color=INK, fontsize=8, ha="right")
