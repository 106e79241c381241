# SPDX-License-Identifier: BSD-3-Clause
"""Configuration of the push task."""

from isaaclab.assets import RigidObjectCfg
from isaaclab.utils import configclass

from isaaclab_pc.assets.primitives import cube_cfg, region_cfg
from isaaclab_pc.envs import PointCloudEnvCfg, PointCloudSceneCfg

CUBE_EDGE = 0.04
"""Edge length of the cube [m]."""

REGION_RADIUS = 0.1
"""Radius of the goal region [m]."""


@configclass
class PushSceneCfg(PointCloudSceneCfg):
    """The shared scene, a cube, and a disc that marks the goal region and that nothing collides with."""

    cube: RigidObjectCfg = cube_cfg(edge=CUBE_EDGE, pos=(0.45, 0.0, CUBE_EDGE / 2))
    region: RigidObjectCfg = region_cfg(radius=REGION_RADIUS, thickness=0.025, pos=(0.65, 0.0, 0.0))


@configclass
class PushEnvCfg(PointCloudEnvCfg):
    """Push a cube into a region on the table."""

    scene: PushSceneCfg = PushSceneCfg()
    robots: tuple[str, ...] = ("franka", "ur5e")
    episode_length_s: float = 4.0
    gripper: bool = True
    randomized: tuple[str, ...] = ("cube",)

    cube_lower: tuple[float, float, float] = (0.4, -0.1, -0.7854)
    """Smallest x [m], y [m] and yaw [rad] of the cube after a reset, in the environment frame."""

    cube_upper: tuple[float, float, float] = (0.5, 0.1, 0.7854)
    """Largest x [m], y [m] and yaw [rad] of the cube after a reset; by symmetry this is every yaw."""

    goal_lower: tuple[float, float] = (0.2, -0.4)
    """Smallest distance [m] and bearing [rad] of the region's centre from the cube; bearing 0 is along x."""

    goal_upper: tuple[float, float] = (0.25, 0.4)
    """Largest distance [m] and bearing [rad] of the region's centre from the cube."""

    success_height: float = 0.005
    """Largest height of the cube above the table that counts as success [m]."""
