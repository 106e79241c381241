# SPDX-License-Identifier: BSD-3-Clause
"""Where the points of an observation are in the world."""

from typing import Any

import torch

from isaaclab_pc.tensors.poses import from_frame


def points_in_world(env: Any, points: torch.Tensor) -> torch.Tensor:
    """Move observed points of the first environments into the world.

    Takes [m], shape (M, K, 3), any float dtype, and returns the same in float32.
    """
    cloud = env.point_cloud
    position, quat = cloud.frame_pose(cloud.cfg.frame)
    points = points.float()
    if quat is None:
        return points + position[: len(points), None]
    return from_frame(position[: len(points)], quat[: len(points)], points)
