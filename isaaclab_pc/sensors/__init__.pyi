# SPDX-License-Identifier: BSD-3-Clause
from .appended_points_cfg import BodyPointsCfg, GivenPointsCfg
from .depth_to_cloud import Cloud, DepthToCloud
from .observations import cloud_points
from .point_cloud import PointCloud, PointCloudData
from .point_cloud_cfg import PointCloudCfg
from .realism.cfg import (
    DepthRealismCfg,
    GaussianNoiseCfg,
    StereoNoiseCfg,
    StructuredLightNoiseCfg,
    stereo,
    structured_light,
)
from .realism.depth_realism import DepthRealism
from .threaded_renderer_cfg import ThreadedWarpRendererCfg

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
    "ThreadedWarpRendererCfg",
    "cloud_points",
    "stereo",
    "structured_light",
]
