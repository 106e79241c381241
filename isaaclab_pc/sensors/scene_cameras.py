# SPDX-License-Identifier: BSD-3-Clause
"""What the point-cloud sensor reads from the depth cameras of a scene."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.tensor_bytes import tensor_bytes

if TYPE_CHECKING:
    from isaaclab.scene import InteractiveScene
    from isaaclab.sensors import Camera

    from isaaclab_pc.sensors.point_cloud_cfg import PointCloudCfg

__all__ = [
    "SemanticLabels",
    "color_image",
    "depth_image",
    "find_camera",
    "first_miss_depth",
    "predicted_renderer_bytes",
    "renderer_bytes",
]

logger = logging.getLogger(__name__)

_DEPTH_TYPES = ("depth", "distance_to_image_plane")
_RGB_TYPES = ("rgb", "rgba")


def find_camera(cfg: PointCloudCfg, scene: InteractiveScene, name: str) -> Camera:
    """Look up a camera of the scene, and check that it renders what the cloud needs.

    Args:
        cfg: The sensor's configuration.
        scene: The scene.
        name: The camera's name in the scene.

    Returns:
        The camera, which from now on updates its pose in every frame.

    Raises:
        ConfigError: There is no such camera, or it does not render what the cloud needs.
    """
    cameras: dict[str, Any] = {key: value for key, value in scene.sensors.items() if hasattr(value, "image_shape")}
    if name not in cameras:
        raise ConfigError(f"points.cameras names {name!r}, and the scene's cameras are {sorted(cameras)}.")

    camera = cameras[name]
    rendered = set(camera.cfg.data_types)
    for needed in cfg.data_types():
        accepted = {"depth": _DEPTH_TYPES, "rgb": _RGB_TYPES}.get(needed, (needed,))
        if not rendered & set(accepted):
            raise ConfigError(
                f"The camera {name!r} renders {sorted(rendered)}, and the point cloud needs {needed!r}: "
                f"add it to the camera's data_types."
            )

    if not getattr(camera.cfg, "update_latest_camera_pose", True):
        # Without this, the points of a camera that moves would stay where the camera was at the start.
        logger.info("PointCloud sets update_latest_camera_pose of the camera %r.", name)
        camera.cfg.update_latest_camera_pose = True
    return camera


def depth_image(camera: Camera) -> torch.Tensor:
    """Return a camera's distance to the image plane [m], shape (N, H, W), float32."""
    output: Any = camera.data.output
    rendered_as = next(name for name in _DEPTH_TYPES if name in camera.cfg.data_types)
    return output[rendered_as].torch.squeeze(-1)


def color_image(camera: Camera) -> torch.Tensor:
    """Return a camera's red, green and blue from 0 to 255, shape (N, H, W, 3)."""
    output: Any = camera.data.output
    rendered_as = next(name for name in _RGB_TYPES if name in camera.cfg.data_types)
    return output[rendered_as].torch[..., :3]


def renderer_bytes(camera: Camera) -> int:
    """Return what Newton's renderer holds for a camera beside the images [bytes]; 0 for another renderer.

    It holds the rays, the poses, and for a segmentation the shape at each pixel. The tree of all shapes is not counted:
    the cameras share it, and Warp does not tell its size.
    """
    data: Any = getattr(camera, "_render_data", None)
    if not hasattr(data, "camera_rays"):
        return 0
    return tensor_bytes(data.camera_rays, data.camera_transforms, data.outputs.shape_index_image)


def predicted_renderer_bytes(height: int, width: int, kinds: Sequence[str]) -> tuple[int, int]:
    """Predict :func:`renderer_bytes` of Newton's renderer: fixed bytes, and bytes per environment.

    Args:
        height: Rows of the camera's images.
        width: Their columns.
        kinds: What the camera renders.
    """
    # Origin and direction of a ray; a transform; a shape's index.
    shapes = 4 * height * width if any("segmentation" in kind for kind in kinds) else 0
    return 2 * 12 * height * width, 4 * 7 + shapes


def first_miss_depth(camera: Camera) -> float:
    """Return the depth from which a pixel is a miss [m]: some renderers write the far clipping distance for a miss."""
    _, far = getattr(getattr(camera.cfg, "spawn", None), "clipping_range", (0.0, math.inf))
    return far * (1.0 - 1e-6)


class SemanticLabels:
    """The semantic images of the cameras, and what their ids mean.

    Each renderer numbers the classes that it meets, camera by camera, and may add numbers while it runs.
    """

    def __init__(
        self, cameras: dict[str, Camera], removed_classes: Sequence[str], point_classes: Sequence[str], device: str
    ) -> None:
        """Start without any known id.

        Args:
            cameras: The cameras by their names in the scene.
            removed_classes: Semantic classes whose pixels give no points.
            point_classes: Semantic classes that points are told apart by.
            device: Torch device.
        """
        self._cameras = cameras
        self._removed_classes = removed_classes
        self._point_classes = point_classes
        self._device = device
        self._names: list[dict] = [{} for _ in cameras]

        self.removed = torch.zeros(len(cameras), 0, dtype=torch.bool, device=device)
        """True at the ids whose pixels give no points, shape (C, number of ids)."""

        self.class_index = torch.zeros(len(cameras), 0, dtype=torch.long, device=device)
        """Position of each id's class among the points' classes, -1 for other ones, shape (C, number of ids)."""

    def read(self) -> list[torch.Tensor]:
        """Return the semantic image of each camera, and update the tables where a renderer has added an id.

        Returns:
            One image per camera, shape (N, H, W), int32.

        Raises:
            ConfigError: A camera renders colours in the place of ids.
        """
        images = []
        for index, (name, camera) in enumerate(self._cameras.items()):
            data: Any = camera.data
            image = data.output["semantic_segmentation"].torch
            if image.shape[-1] != 1 or image.dtype != torch.int32:
                raise ConfigError(
                    f"The camera {name!r} renders semantic_segmentation as colours: set "
                    "colorize_semantic_segmentation=False in its renderer_cfg."
                )
            images.append(image.squeeze(-1))

            names = data.info["semantic_segmentation"]["idToLabels"]
            if names != self._names[index]:
                self._names[index] = dict(names)
                self._build_tables()
        return images

    def _build_tables(self) -> None:
        classes = [
            {int(key): value.get("class", "") for key, value in names.items() if isinstance(value, dict)}
            for names in self._names
        ]
        num_ids = max((max(table, default=0) for table in classes), default=0) + 1

        removed = torch.zeros(len(classes), num_ids, dtype=torch.bool)
        class_index = torch.full((len(classes), num_ids), -1)
        for camera, table in enumerate(classes):
            for index, name in table.items():
                removed[camera, index] = name in self._removed_classes
                if name in self._point_classes:
                    class_index[camera, index] = self._point_classes.index(name)

        self.removed = removed.to(self._device)
        self.class_index = class_index.to(self._device)
