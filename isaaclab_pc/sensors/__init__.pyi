# SPDX-License-Identifier: BSD-3-Clause
from .appended_points_cfg import BodyPointsCfg, GivenPointsCfg
from .cloud import Cloud
from .depth_to_cloud import DepthToCloud
from .lazy_renderer_cfg import LazyWarpRendererCfg
from .observations import cloud_points
from .point_cloud import PointCloud, PointCloudData
from .point_cloud_cfg import PointCloudCfg
from .realism.cfg import (
    DepthRealismCfg,
    GaussianNoiseCfg,
    StereoNoiseCfg,
    StructuredLightNoiseCfg,
    short_range_stereo,
    stereo,
    structured_light,
)
from .realism.depth_realism import DepthRealism

__all__ = [
    "BodyPointsCfg",
    "Cloud",
    "DepthRealism",
    "DepthRealismCfg",
    "DepthToCloud",
    "GaussianNoiseCfg",
    "GivenPointsCfg",
    "LazyWarpRendererCfg",
    "PointCloud",
    "PointCloudCfg",
    "PointCloudData",
    "StereoNoiseCfg",
    "StructuredLightNoiseCfg",
    "cloud_points",
    "short_range_stereo",
    "stereo",
    "structured_light",
]
