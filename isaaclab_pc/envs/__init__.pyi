# SPDX-License-Identifier: BSD-3-Clause
from .point_cloud_env import PointCloudEnv
from .point_cloud_env_cfg import (
    PointCloudEnvCfg,
    PointCloudSceneCfg,
    depth_camera_cfg,
    workspace_points_cfg,
)

__all__ = ["PointCloudEnv", "PointCloudEnvCfg", "PointCloudSceneCfg", "depth_camera_cfg", "workspace_points_cfg"]
