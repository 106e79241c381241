# SPDX-License-Identifier: BSD-3-Clause
"""Depth images to fixed-size point clouds."""

from isaaclab_pc.sensors.point_cloud import PointCloud
from isaaclab_pc.sensors.point_cloud_cfg import PointCloudCfg

__all__ = ["PointCloud", "PointCloudCfg"]
