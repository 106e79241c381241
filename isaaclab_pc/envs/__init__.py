# SPDX-License-Identifier: BSD-3-Clause
"""The environment that all tasks share."""

from isaaclab_pc.envs.point_cloud_env import PointCloudEnv
from isaaclab_pc.envs.point_cloud_env_cfg import (
    PointCloudEnvCfg,
    PointCloudSceneCfg,
    depth_camera_cfg,
    workspace_points_cfg,
)

__all__ = ["PointCloudEnv", "PointCloudEnvCfg", "PointCloudSceneCfg", "depth_camera_cfg", "workspace_points_cfg"]
