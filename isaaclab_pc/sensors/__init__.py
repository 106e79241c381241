# SPDX-License-Identifier: BSD-3-Clause
"""Depth cameras to point clouds: the sensor, the operator beneath it, and what clouds need on their way to a policy."""

from isaaclab_pc.sensors import cloud_ops
from isaaclab_pc.sensors.appended_points import BodyPointsCfg, GivenPointsCfg
from isaaclab_pc.sensors.depth_to_cloud import Cloud, DepthToCloud
from isaaclab_pc.sensors.observations import cloud_points
from isaaclab_pc.sensors.point_cloud import PointCloud, PointCloudData
from isaaclab_pc.sensors.point_cloud_cfg import PointCloudCfg
from isaaclab_pc.sensors.realism import DepthRealism
from isaaclab_pc.sensors.realism_cfg import (
    DepthRealismCfg,
    GaussianNoiseCfg,
    StereoNoiseCfg,
    StructuredLightNoiseCfg,
    stereo,
    structured_light,
)

__all__ = [
    "BodyPointsCfg",
    "Cloud",
    "DepthRealism",
    "DepthRealismCfg",
    "DepthToCloud",
    "GaussianNoiseCfg",
    "GivenPointsCfg",
    "PointCloud",
    "PointCloudCfg",
    "PointCloudData",
    "StereoNoiseCfg",
    "StructuredLightNoiseCfg",
    "cloud_ops",
    "cloud_points",
    "stereo",
    "structured_light",
]
