# SPDX-License-Identifier: BSD-3-Clause
"""What a policy sees of any task: a depth image or a point cloud."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from isaaclab_pc.sensors.scene_cameras import depth_image, depth_limits

if TYPE_CHECKING:
    from isaaclab_pc.envs.point_cloud_env import PointCloudEnv

__all__ = ["observe_depth", "observe_points"]


def observe_depth(env: PointCloudEnv) -> torch.Tensor:
    """Return planar depth [m], shape (N, 1, rows, columns); 0 where nothing is within ``cfg.max_depth``.

    What is nearer than the camera's clipping range reads 0 as well.
    """
    depth = _read_depth(env, ["camera"])["camera"]
    assert env.camera is not None
    near, _ = depth_limits(env.camera)
    seen = (depth > near) & (depth <= env.cfg.max_depth)
    return torch.where(seen, depth, 0.0).unsqueeze(1)


def observe_points(env: PointCloudEnv) -> torch.Tensor:
    """Return the cloud, shape (N, K, 3) or with its further features; the frame is that of ``cfg.scene.points``."""
    cloud = env.point_cloud
    assert cloud is not None

    if env.cfg.goal_points > 0:
        goal = env._goal()
        assert goal is not None
        cloud.given["goal"][:] = (goal + env.scene.env_origins)[:, None] + env.goal_sphere

    # Checks, and in mode sanitize repairs, the images before the cloud is made of them.
    _read_depth(env, cloud.cfg.cameras)
    return cloud.data.points.torch.clone()


def _read_depth(env: PointCloudEnv, cameras: Sequence[str]) -> dict[str, torch.Tensor]:
    """Return planar depth [m] of cameras by their names in the scene, each (N, rows, columns), checked."""
    sensors: Any = env.scene.sensors
    images = {name: depth_image(sensors[name]) for name in cameras}
    env.step_guard.check_depth(images)
    return images
