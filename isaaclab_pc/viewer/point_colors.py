# SPDX-License-Identifier: BSD-3-Clause
"""Colours of a cloud's points: by height or by camera."""

from typing import Any

import matplotlib as mpl
import numpy as np

from isaaclab_pc.report.drawing import HEIGHT_SPAN
from isaaclab_pc.sensors import PointCloud
from isaaclab_pc.sensors.features import camera_of

_APPENDED = np.array([235, 50, 200], np.uint8)
"""Colour of points that no camera saw, such as a goal's."""

_PALETTE = (255.0 * mpl.colormaps["tab10"](np.arange(10))[:, :3]).astype(np.uint8)
"""Colours of cameras, which repeat after ten."""


def color_legends(cloud: PointCloud) -> dict[str, tuple[str, ...]]:
    """Return the ways to colour a sensor's points, each with the entries of its legend, lowest value first."""
    return {"height": ("0 m", f"{HEIGHT_SPAN} m and above"), "camera": tuple(cloud.cfg.cameras)}


def color_points(cloud: PointCloud, cameras: list[Any], heights: np.ndarray) -> dict[str, np.ndarray]:
    """Colour the points of the current frame, by way to colour; returns each (N, K + A, 3), uint8.

    The cameras are those of the cloud, in its order. ``heights`` are above the environments' origins [m], shape
    (N, K + A); the A appended points are the last.
    """
    pixels = cloud.data.pixels.torch
    sizes = [camera.image_shape for camera in cameras]
    seen_by = camera_of(sizes, pixels).cpu().numpy()
    by_camera = np.broadcast_to(_APPENDED, (*heights.shape, 3)).copy()
    by_camera[:, : pixels.shape[1]] = _PALETTE[seen_by % len(_PALETTE)]
    return {"height": colors_by_height(heights), "camera": by_camera}


def colors_by_height(heights: np.ndarray) -> np.ndarray:
    """Return the colours of heights [m] above an environment's origin, shape (..., 3), uint8."""
    share = np.nan_to_num(heights / HEIGHT_SPAN).clip(0.0, 1.0)
    return (255.0 * mpl.colormaps["turbo"](share)[..., :3]).astype(np.uint8)
