# SPDX-License-Identifier: BSD-3-Clause
"""Whether a camera can see a box at all, told from the configs before anything is rendered."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

_COLUMNS = 64
"""Rays across the image at most, both ways: a box that none of them meets has hardly a pixel."""


def can_see_box(camera: Any, lower: Sequence[float], upper: Sequence[float]) -> bool:
    """Tell whether any ray of a pinhole camera meets an axis-aligned box [m] within its clipping range.

    The ``CameraCfg`` has an offset in the ROS convention, relative to the box's frame. Occlusion is ignored. The
    intersection is that of Kay and Kajiya's slabs (SIGGRAPH 1986).
    """
    spawn = camera.spawn
    aperture_x = spawn.horizontal_aperture
    # Isaac Lab's pixels are square, whatever the vertical aperture is.
    aperture_y = aperture_x * camera.height / camera.width

    # Through the centres of evenly spread pixels, in the optical frame: x right, y down, z forward, at a depth of 1 m.
    x = _spread(min(camera.width, _COLUMNS)) * aperture_x / spawn.focal_length
    y = _spread(min(camera.height, _COLUMNS)) * aperture_y / spawn.focal_length
    grid = np.stack([*np.meshgrid(x, y), np.ones((len(y), len(x)))], axis=-1).reshape(-1, 3)
    rays = Rotation.from_quat(camera.offset.rot).apply(grid)

    origin = np.asarray(camera.offset.pos, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        first = (np.asarray(lower) - origin) / rays
        second = (np.asarray(upper) - origin) / rays
    # A ray that runs along a face of the box divides 0 by 0; such a ray decides nothing.
    entry = np.nanmax(np.minimum(first, second), axis=1)
    leave = np.nanmin(np.maximum(first, second), axis=1)

    near, far = spawn.clipping_range
    return bool(np.any(np.maximum(entry, near) <= np.minimum(leave, far)))


def _spread(count: int) -> np.ndarray:
    """Return the centres of ``count`` equal parts of [-0.5, 0.5]."""
    return (np.arange(count) + 0.5) / count - 0.5
