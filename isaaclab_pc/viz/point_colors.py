# SPDX-License-Identifier: BSD-3-Clause
"""Colours of a cloud's points: by height, by camera, by semantic class, or by age."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
import torch

from isaaclab_pc.sensors import PointCloud, PointCloudCfg
from isaaclab_pc.sensors.features import at_pixels, camera_of
from isaaclab_pc.viz.drawing import HEIGHT_SPAN

__all__ = ["PointColors", "color_ways", "colors_by_height"]

_APPENDED = np.array([235, 50, 200], np.uint8)
"""Colour of points that no camera saw, such as a goal's."""


class PointColors:
    """Colours the points of a sensor in every way that it knows."""

    def __init__(self, cloud: PointCloud, cameras: list[Any]) -> None:
        """Find out what is known of a point.

        Args:
            cloud: The sensor.
            cameras: Its cameras, in its order.
        """
        self._cloud = cloud
        self._cameras = cameras
        self._sizes = [camera.image_shape for camera in cameras]
        self._classes: list[str] = []

        ways = color_ways(cloud.cfg)
        self._longest_age = _longest_age(cloud.cfg)
        self._knows_classes = "segmentation" in ways
        self.names: dict[str, tuple[str, ...]] = dict.fromkeys(ways, ())
        """The ways to colour, with what the colours stand for, the lowest first."""
        self.names["height"] = ("0 m", f"{HEIGHT_SPAN} m and above")
        self.names["camera"] = tuple(cloud.cfg.cameras)
        if self._knows_classes:
            self._read_classes()
        if "age" in ways:
            self.names["age"] = ("0 frames", f"{self._longest_age} frames")

    def read(self, heights: np.ndarray) -> dict[str, np.ndarray]:
        """Colour the points of the current frame.

        Args:
            heights: Above the environments' origins [m], shape (N, K + A); the A appended points are the last.

        Returns:
            By way to colour, each (N, K + A, 3), uint8.
        """
        pixels = self._cloud.data.pixels.torch
        seen = pixels.shape[1]
        camera = camera_of(self._sizes, pixels)
        values = {"camera": camera}
        if self._knows_classes:
            values["segmentation"] = self._class_at(pixels, camera)

        colors = {"height": colors_by_height(heights)}
        for name, index in values.items():
            colors[name] = np.broadcast_to(_APPENDED, (*heights.shape, 3)).copy()
            colors[name][:, :seen] = _palette(index.cpu().numpy())
        if self._longest_age > 0:
            share = self._cloud.age.cpu().numpy() / self._longest_age
            of_env = (255.0 * mpl.colormaps["viridis"](share)[:, None, :3]).astype(np.uint8)
            colors["age"] = np.broadcast_to(of_env, (*heights.shape, 3)).copy()
        return colors

    def _class_at(self, pixels: torch.Tensor, camera: torch.Tensor) -> torch.Tensor:
        """Return the number of each point's class among the known ones, shape (N, K)."""
        tables = self._read_classes()
        images = [camera.data.output["semantic_segmentation"].torch for camera in self._cameras]
        ids = at_pixels(images, pixels)[..., 0].long()
        return tables.to(ids.device)[camera, ids.clamp(0, tables.shape[1] - 1)]

    def _read_classes(self) -> torch.Tensor:
        """Return the class of every camera's ids, shape (C, number of ids); a renderer may add ids while it runs."""
        found = []
        for camera in self._cameras:
            labels = camera.data.info["semantic_segmentation"]["idToLabels"]
            found.append({int(key): str(value["class"]) for key, value in labels.items() if isinstance(value, dict)})
        self._classes += sorted({name for table in found for name in table.values()} - set(self._classes))
        self.names["segmentation"] = tuple(self._classes)

        tables = torch.zeros(len(found), 1 + max(max(table, default=0) for table in found), dtype=torch.long)
        for camera, table in enumerate(found):
            for index, name in table.items():
                tables[camera, index] = self._classes.index(name)
        return tables


def color_ways(cfg: PointCloudCfg) -> tuple[str, ...]:
    """Return the ways in which a sensor's points can be coloured; starts no simulator.

    Args:
        cfg: The sensor's configuration.
    """
    latency = _longest_age(cfg) > 0
    # The images are of now; of an older cloud's pixels they would tell the wrong class.
    labelled = "semantic_segmentation" in cfg.data_types() and not latency
    return ("height", "camera", *(["segmentation"] if labelled else []), *(["age"] if latency else []))


def _longest_age(cfg: PointCloudCfg) -> int:
    """Return the longest latency that a cloud may have [frames]."""
    latency = 0 if cfg.realism is None else cfg.realism.latency
    return latency if isinstance(latency, int) else latency[1]


def colors_by_height(heights: np.ndarray) -> np.ndarray:
    """Return a colour for each height [m] above an environment's origin, shape (..., 3), uint8."""
    share = np.nan_to_num(heights / HEIGHT_SPAN).clip(0.0, 1.0)
    return (255.0 * mpl.colormaps["turbo"](share)[..., :3]).astype(np.uint8)


def _palette(index: np.ndarray) -> np.ndarray:
    """Return one of ten colours, which are easily told apart, for each number, shape (..., 3), uint8."""
    table = (255.0 * np.asarray(mpl.colormaps["tab10"].colors)).astype(np.uint8)  # pyright: ignore[reportAttributeAccessIssue]
    return table[index % len(table)]
