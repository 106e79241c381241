# SPDX-License-Identifier: BSD-3-Clause
"""The sheet of a set of objects: each as it rests most often, with the number of its grasps."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.spatial.transform import Rotation

from isaaclab_pc.assets.objects.graspable import Graspable
from isaaclab_pc.report.drawing import draw_triangles, save_png

_COLUMNS = 12
_VIEW = Rotation.from_euler("zx", (35.0, -60.0), degrees=True)
"""From slightly above; then x is to the right, y up and z towards the eye."""
_COLOR = np.array([0.35, 0.60, 0.95])


def save_object_sheet(
    objects: Sequence[Graspable], title: str, path: Path, labels: Sequence[str] | None = None
) -> None:
    """Draw at least one object each into a PNG file, all at one scale; ``labels`` take the place of their grasps."""
    labels = labels or [f"{len(graspable.grasp_width)} grasps" for graspable in objects]
    columns = min(_COLUMNS, len(objects))
    rows = math.ceil(len(objects) / columns)
    reach = 0.8 * max(float(np.linalg.norm(graspable.vertices, axis=1).max()) for graspable in objects)

    def draw(figure: Figure) -> None:
        panels = figure.subplots(rows, columns, squeeze=False)
        for axes in panels.flat:
            axes.set_axis_off()
        for axes, graspable, label in zip(panels.flat, objects, labels, strict=False):
            _draw(graspable, axes)
            axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
            axes.set_title(f"{graspable.family}\n{label}", fontsize=8)

    save_png(draw, path, title, (1.3 * columns + 0.4, 1.5 * rows + 0.6))


def _draw(graspable: Graspable, axes: Any) -> None:
    likeliest = int(graspable.rest_chance.argmax())
    turn = _VIEW * Rotation.from_quat(graspable.rest_quat[likeliest])
    triangles = np.concatenate([part.vertices[part.faces] for part in graspable.parts()])
    corners = turn.apply(triangles.reshape(-1, 3)).reshape(-1, 3, 3)
    draw_triangles(axes, corners, _COLOR)
