# SPDX-License-Identifier: BSD-3-Clause
"""Record the inputs of a point-cloud sensor, so that its clouds can be made again without a simulator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from isaaclab_pc.sensors import PointCloud

__all__ = ["CloudRecorder"]

_IDENTITY = (0.0, 0.0, 0.0, 1.0)


class CloudRecorder:
    """Stands around a sensor's operator and keeps its calls, of the first environment."""

    def __init__(self, sensor: PointCloud) -> None:
        """Take the operator's place.

        Args:
            sensor: The initialized sensor.
        """
        self._sensor = sensor
        self._operator = sensor.operator
        self._cameras = list(sensor.cfg.cameras)
        self._frames: list[dict[str, np.ndarray]] = []
        sensor.operator = self  # type: ignore[assignment]

    @property
    def frame(self) -> dict[str, np.ndarray]:
        """Inputs of the sensor's present cloud; with a latency, not what the cameras see now.

        ``count``, how many of its points are distinct; ``key``, the random draw's; in the world, ``crop_pos`` [m] and
        ``crop_quat``, (x, y, z, w), the crop's frame, and ``frame_pos`` and ``frame_quat``, that of the points; and for
        each camera ``depth_<name>`` [m], shape (H, W), ``removed_<name>``, True at what gives no point because of its
        class, ``intrinsics_<name>`` [px], ``camera_pos_<name>`` [m] and ``camera_quat_<name>`` in the optical
        convention; where one of the cameras has a lens, also ``centers_<name>``, where a pinhole would see what the
        pixels see [px], shape (H, W, 2).
        """
        return self._frames[-1 - int(self._sensor.age[0])]

    def __getattr__(self, name: str) -> Any:
        """Return whatever else the operator has."""
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
        crop = (_first(options["frame_pos"], (0.0,) * 3), _first(options["frame_quat"], _IDENTITY))
        output = (_first(options["output_pos"], crop[0]), _first(options["output_quat"], crop[1]))
        frame = {"count": cloud.count[0].cpu().numpy().copy(), "key": keys[0].cpu().numpy().copy()}
        frame |= dict(zip(("crop_pos", "crop_quat", "frame_pos", "frame_quat"), (*crop, *output), strict=True))
        for index, name in enumerate(self._cameras):
            depth = depths[index][0].cpu()
            removed = torch.zeros_like(depth, dtype=torch.bool)
            if options["removed"] is not None:
                labels = options["labels"][index][0].cpu().long()
                classes = options["removed"][index].cpu()
                known = labels.clamp(0, len(classes) - 1)
                removed = (known == labels) & classes[known]
            frame[f"depth_{name}"] = depth.numpy().copy()
            frame[f"removed_{name}"] = removed.numpy()
            if options.get("centers") is not None:
                frame[f"centers_{name}"] = options["centers"][index].cpu().numpy()
            frame[f"intrinsics_{name}"] = intrinsics[0, index].cpu().numpy().copy()
            frame[f"camera_pos_{name}"] = camera_pos[0, index].cpu().numpy().copy()
            frame[f"camera_quat_{name}"] = camera_quat[0, index].cpu().numpy().copy()
        self._frames.append(frame)
        return cloud


def _first(value: torch.Tensor | None, default: Any) -> np.ndarray:
    """Return what belongs to the first environment, or the default where there is nothing."""
    return np.asarray(default, dtype=np.float32) if value is None else value[0].cpu().numpy().copy()
