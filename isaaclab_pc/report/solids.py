# SPDX-License-Identifier: BSD-3-Clause
"""Draws solids as the eye sees them, without a renderer."""

from typing import Any

import numpy as np
from matplotlib.collections import PolyCollection

_LIGHT = np.array([-0.3, 0.5, 0.8])


def draw_triangles(axes: Any, corners: np.ndarray, colors: np.ndarray) -> None:
    """Draw shaded triangles into matplotlib's axes, the nearest last.

    ``corners``, (T, 3, 3), are in a frame with x to the right, y up and z towards the eye [m], counterclockwise where
    seen from outside; ``colors``, (T, 3), are red, green and blue from 0 to 1.
    """
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals /= np.linalg.norm(normals, axis=1, keepdims=True).clip(min=1e-12)

    # Those that face away are hidden.
    front = np.flatnonzero(normals[:, 2] > 0.0)
    order = front[np.argsort(corners[front, :, 2].mean(axis=1))]
    light = 0.35 + 0.65 * (normals[order] @ (_LIGHT / np.linalg.norm(_LIGHT))).clip(min=0.0)
    shaded = light[:, None] * colors[order]
    axes.add_collection(
        PolyCollection(list(corners[order, :, :2]), facecolors=shaded, edgecolors=shaded, linewidths=0.3)
    )
