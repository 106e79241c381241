# SPDX-License-Identifier: BSD-3-Clause
"""Where the points of an observation are in the world."""

from typing import Any

import torch

from isaaclab_pc.tensors.poses import from_frame


def points_in_world(env: Any, points: torch.Tensor) -> torch.Tensor:
    """Move observed points from the cloud's frame into the world.

    Args:
        env: The unwrapped environment, with a cloud.
        points: Observed points of the first environments [m], shape (M, K, 3), any float dtype.

    Returns:
        Points in the world [m], shape (M, K, 3), float32.
    """
    cloud = env.point_cloud
    position, quat = cloud.frame_pose(cloud.cfg.frame)
    points = points.float()
    if quat is None:
        return points + position[: len(points), None]
    return from_frame(position[: len(points)], quat[: len(points)], points)
