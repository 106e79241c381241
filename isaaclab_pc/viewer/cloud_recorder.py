# SPDX-License-Identifier: BSD-3-Clause
"""Records the inputs of a point-cloud sensor, from which its clouds can be made again without a simulator."""

from typing import Any

import numpy as np
import torch

from isaaclab_pc.sensors import PointCloud

_IDENTITY = (0.0, 0.0, 0.0, 1.0)


class CloudRecorder:
    """Wraps a sensor's operator, and keeps the inputs of its calls for the first environment."""

    def __init__(self, sensor: PointCloud) -> None:
        """Take the operator's place."""
        self._sensor = sensor
        self._operator = sensor.operator
        self._cameras = list(sensor.cfg.cameras)
        self._frames: list[dict[str, np.ndarray]] = []
        sensor.operator = self  # type: ignore[assignment]

    @property
    def frame(self) -> dict[str, np.ndarray]:
        """Inputs of the sensor's present cloud; with a latency, older than the cameras' present images.

        ``count``, the number of distinct points; ``key`` of the random draw; poses in the world, of the crop's frame
        ``crop_pos`` [m] and ``crop_quat``, (x, y, z, w), and of the points' frame ``frame_pos`` and ``frame_quat``. For
        each camera: ``depth_<name>`` [m], shape (H, W); ``removed_<name>``, True where a pixel's class gives no points;
        ``intrinsics_<name>`` [px]; ``camera_pos_<name>`` [m] and ``camera_quat_<name>`` in the optical convention; and
        if any camera has a lens, ``centers_<name>``, the pixels' places in a pinhole image [px], shape (H, W, 2).
        """
        return self._frames[-1 - int(self._sensor.age[0])]

    def __getattr__(self, name: str) -> Any:
        """Return another attribute of the operator."""
        return getattr(self._operator, name)

    def __call__(
        self,
        depths: list[torch.Tensor],
        intrinsics: torch.Tensor,
        camera_pos: torch.Tensor,
        camera_quat: torch.Tensor,
        keys: torch.Tensor,
        **options: Any,
    ) -> Any:
        """Make the clouds; the arguments are those of :class:`~isaaclab_pc.sensors.DepthToCloud`."""
        cloud = self._operator(depths, intrinsics, camera_pos, camera_quat, keys, **options)
        frame = {"count": _array(cloud.count[0]), "key": _array(keys[0])}
        frame["crop_pos"] = _first(options["frame_pos"], (0.0, 0.0, 0.0))
        frame["crop_quat"] = _first(options["frame_quat"], _IDENTITY)
        frame["frame_pos"] = _first(options["output_pos"], frame["crop_pos"])
        frame["frame_quat"] = _first(options["output_quat"], frame["crop_quat"])
        for index, name in enumerate(self._cameras):
            depth = depths[index][0]
            frame[f"depth_{name}"] = _array(depth)
            frame[f"removed_{name}"] = _array(_removed(depth, index, options))
            if options.get("centers") is not None:
                frame[f"centers_{name}"] = _array(options["centers"][index])
            frame[f"intrinsics_{name}"] = _array(intrinsics[0, index])
            frame[f"camera_pos_{name}"] = _array(camera_pos[0, index])
            frame[f"camera_quat_{name}"] = _array(camera_quat[0, index])
        self._frames.append(frame)
        return cloud


def _removed(depth: torch.Tensor, camera: int, options: dict[str, Any]) -> torch.Tensor:
    """Return which pixels of a camera have a class that is removed, shape (H, W), bool."""
    if options["removed"] is None:
        return torch.zeros_like(depth, dtype=torch.bool)
    labels = options["labels"][camera][0].long()
    classes = options["removed"][camera]
    known = labels.clamp(0, len(classes) - 1)
    return (known == labels) & classes[known]


def _first(value: torch.Tensor | None, default: Any) -> np.ndarray:
    """Return the first environment's row, or the default without a value."""
    return np.asarray(default, dtype=np.float32) if value is None else _array(value[0])


def _array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.cpu().numpy().copy()
