# SPDX-License-Identifier: BSD-3-Clause
"""Configuration of the new_task task."""

from __future__ import annotations

from isaaclab.assets import RigidObjectCfg
from isaaclab.utils import configclass

from isaaclab_pc.assets.primitives import cube_cfg
from isaaclab_pc.envs import PointCloudEnvCfg, PointCloudSceneCfg

CUBE_EDGE = 0.05
"""Edge length of the cube [m]."""


@configclass
class NewTaskSceneCfg(PointCloudSceneCfg):
    """The shared scene and a cube on the table."""

    cube: RigidObjectCfg = cube_cfg(edge=CUBE_EDGE, pos=(0.5, 0.0, CUBE_EDGE / 2))


@configclass
class NewTaskEnvCfg(PointCloudEnvCfg):
    """Hold the tool centre above a cube."""

    scene: NewTaskSceneCfg = NewTaskSceneCfg()
    episode_length_s: float = 3.0
    randomized: tuple[str, ...] = ("cube",)

    cube_lower: tuple[float, float, float] = (0.4, -0.2, -0.7854)
    """Smallest x [m], y [m] and yaw [rad] of the cube after a reset, in the environment frame."""

    cube_upper: tuple[float, float, float] = (0.6, 0.2, 0.7854)
    """Largest x [m], y [m] and yaw [rad] of the cube after a reset."""

    height: float = 0.1
    """Height of the goal above the cube's centre [m]."""

    success_distance: float = 0.025
    """Largest distance of the tool centre from the goal that counts as success [m]."""
