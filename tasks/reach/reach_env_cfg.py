# SPDX-License-Identifier: BSD-3-Clause
"""Configuration of the reach task."""

from isaaclab.assets import RigidObjectCfg
from isaaclab.utils import configclass

from isaaclab_pc.assets.primitives import target_cfg
from isaaclab_pc.envs import PointCloudEnvCfg, PointCloudSceneCfg, workspace_points_cfg
from isaaclab_pc.sensors import PointCloudCfg


@configclass
class ReachSceneCfg(PointCloudSceneCfg):
    """The shared scene and a target sphere that nothing collides with."""

    target: RigidObjectCfg = target_cfg(radius=0.04)
    points: PointCloudCfg | None = workspace_points_cfg(64, (0.2, -0.4, 0.02), (0.85, 0.4, 0.6))


@configclass
class ReachEnvCfg(PointCloudEnvCfg):
    """Bring the tool centre to a sphere that hangs in the workspace."""

    scene: ReachSceneCfg = ReachSceneCfg()
    robots: tuple[str, ...] = ("franka", "ur5e")
    episode_length_s: float = 2.0

    target_lower: tuple[float, float, float] = (0.35, -0.25, 0.1)
    """Smallest target position in the environment frame [m]."""

    target_upper: tuple[float, float, float] = (0.65, 0.25, 0.4)
    """Largest target position in the environment frame [m]."""

    success_distance: float = 0.025
    """Largest distance of the tool centre from the target that counts as success [m]."""
