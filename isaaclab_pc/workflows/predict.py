# SPDX-License-Identifier: BSD-3-Clause
"""What the configs tell about a run's memory, without building anything of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from isaaclab_pc.scaling.preflight import cloud_shape, observation_bytes, rendered_cameras
from isaaclab_pc.sensors import DepthToCloud

if TYPE_CHECKING:
    from isaaclab_pc.sensors import PointCloudCfg
    from isaaclab_pc.workflows.session import Resolved

__all__ = ["predict_memory"]

Part = tuple[float, float, str]

_IMAGE_BYTES = {"rgb": 3, "rgba": 4, "depth": 4, "distance_to_image_plane": 4, "distance_to_camera": 4, "normals": 12}
"""Bytes per pixel of the images that Isaac Lab's cameras hold; segmentation is 4, as ids or as colours."""


def predict_memory(resolved: Resolved) -> dict[str, Part]:
    """Predict the memory whose size follows from the configs.

    Args:
        resolved: The run's configs.

    Returns:
        By kind (see :data:`isaaclab_pc.scaling.ledger.KINDS`): fixed bytes, bytes per environment, and what they are.
    """
    env_cfg, plan = resolved.env_cfg, resolved.plan
    parts: dict[str, Part] = {}
    cameras = [camera for _, camera, _ in rendered_cameras(env_cfg)]
    points = getattr(env_cfg.scene, "points", None) if getattr(env_cfg, "obs", "points") == "points" else None
    images = [
        (camera.height, camera.width, list(points.data_types()) if points else ["depth"])
        if hasattr(env_cfg, "obs")
        else (camera.height, camera.width, list(camera.data_types))
        for camera in cameras
    ]
    if images:
        per_env = sum(
            height * width * sum(_IMAGE_BYTES.get(kind, 4) for kind in kinds) for height, width, kinds in images
        )
        note = ", ".join(f"{height} x {width} {' + '.join(kinds)}" for height, width, kinds in images)
        parts["camera buffers"] = (0, per_env, note)
    if points is not None:
        parts["clouds"] = _clouds(points, [image[:2] for image in images], resolved.device)
    sample = observation_bytes(env_cfg)
    if sample:
        # The batch plan holds the samples per update, so more environments only shorten the horizon.
        note = f"{plan.samples_per_update} samples of {sample} bytes, vectors not counted"
        parts["rollout storage"] = (plan.samples_per_update * sample, 0, note)
    return parts


def _clouds(points: PointCloudCfg, sizes: list[tuple[int, int]], device: str) -> Part:
    """Measure the operator on the CPU, as its scratch depends on sampler and backend, and add the sensor's buffers."""
    few, more = (
        DepthToCloud(
            num_envs,
            sizes,
            points.num_points,
            sampler=points.sampler,
            crop_lower=points.crop_lower,
            crop_upper=points.crop_upper,
            voxel_size=points.voxel_size,
            backend="warp" if device.startswith("cuda") else None,
        ).nbytes
        for num_envs in (64, 128)
    )
    rows, channels, itemsize = cloud_shape(points)
    pixels_and_mask = 4 * points.num_points + rows
    return 0, (more - few) / 64 + rows * channels * itemsize + pixels_and_mask, f"{rows} x {channels} {points.dtype}"
