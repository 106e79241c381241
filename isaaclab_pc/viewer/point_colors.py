# SPDX-License-Identifier: BSD-3-Clause
"""Colours of a cloud's points: by height, by camera or by semantic class."""

from typing import Any

import matplotlib as mpl
import numpy as np
import torch

from isaaclab_pc.report.drawing import HEIGHT_SPAN
from isaaclab_pc.sensors import PointCloud, PointCloudCfg
from isaaclab_pc.sensors.features import at_pixels, camera_of

_APPENDED = np.array([235, 50, 200], np.uint8)
"""Colour of points that no camera saw, such as a goal's."""

_PALETTE = (255.0 * mpl.colormaps["tab10"](np.arange(10))[:, :3]).astype(np.uint8)
"""Colours of cameras and classes, which repeat after ten."""


class PointColors:
    """Colours the points of a sensor in every way that its configuration allows."""

    def __init__(self, cloud: PointCloud, cameras: list[Any]) -> None:
        """Make the legends; the cameras are those of the cloud, in its order."""
        self._cloud = cloud
        self._cameras = cameras
        self._sizes = [camera.image_shape for camera in cameras]
        self._classes: list[str] = []

        self.legends: dict[str, tuple[str, ...]] = dict.fromkeys(color_ways(cloud.cfg), ())
        """Ways to colour, each with the entries of its legend, lowest value first."""
        self.legends["height"] = ("0 m", f"{HEIGHT_SPAN} m and above")
        self.legends["camera"] = tuple(cloud.cfg.cameras)
        if "segmentation" in self.legends:
            self._read_classes()

    def read(self, heights: np.ndarray) -> dict[str, np.ndarray]:
        """Colour the points of the current frame, by way to colour; returns each (N, K + A, 3), uint8.

        ``heights`` are above the environments' origins [m], shape (N, K + A); the A appended points are the last.
        """
        pixels = self._cloud.data.pixels.torch
        camera = camera_of(self._sizes, pixels)
        indices = {"camera": camera}
        if "segmentation" in self.legends:
            indices["segmentation"] = self._class_at(pixels, camera)

        colors = {"height": colors_by_height(heights)}
        for name, index in indices.items():
            colors[name] = np.broadcast_to(_APPENDED, (*heights.shape, 3)).copy()
            colors[name][:, : pixels.shape[1]] = _PALETTE[index.cpu().numpy() % len(_PALETTE)]
        return colors

    def _class_at(self, pixels: torch.Tensor, camera: torch.Tensor) -> torch.Tensor:
        """Return the index of each point's class in the legend, shape (N, K)."""
        tables = self._read_classes()
        images = [camera.data.output["semantic_segmentation"].torch for camera in self._cameras]
        ids = at_pixels(images, pixels)[..., 0].long()
        return tables.to(ids.device)[camera, ids.clamp(0, tables.shape[1] - 1)]

    def _read_classes(self) -> torch.Tensor:
        """Return the class of each camera's ids, shape (C, number of ids); a renderer may add ids while it runs."""
        found = []
        for camera in self._cameras:
            labels = camera.data.info["semantic_segmentation"]["idToLabels"]
            found.append({int(key): str(value["class"]) for key, value in labels.items() if isinstance(value, dict)})
        self._classes += sorted({name for table in found for name in table.values()} - set(self._classes))
        self.legends["segmentation"] = tuple(self._classes)

        tables = torch.zeros(len(found), 1 + max(max(table, default=0) for table in found), dtype=torch.long)
        for camera, table in enumerate(found):
            for index, name in table.items():
                tables[camera, index] = self._classes.index(name)
        return tables


def color_ways(cfg: PointCloudCfg) -> tuple[str, ...]:
    """Return the ways to colour a sensor's points; starts no simulator."""
    latency = 0 if cfg.realism is None else cfg.realism.latency
    longest = latency if isinstance(latency, int) else latency[1]
    # Images that are newer than the cloud would tell the wrong class of its pixels.
    has_classes = longest == 0 and "semantic_segmentation" in cfg.data_types()
    return ("height", "camera", *(["segmentation"] if has_classes else []))


def colors_by_height(heights: np.ndarray) -> np.ndarray:
    """Return the colours of heights [m] above an environment's origin, shape (..., 3), uint8."""
    share = np.nan_to_num(heights / HEIGHT_SPAN).clip(0.0, 1.0)
    return (255.0 * mpl.colormaps["turbo"](share)[..., :3]).astype(np.uint8)
