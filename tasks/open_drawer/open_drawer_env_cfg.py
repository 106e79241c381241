# SPDX-License-Identifier: BSD-3-Clause
"""Configuration of the drawer task."""

from typing import Literal

from isaaclab.assets import ArticulationCfg
from isaaclab.sensors import CameraCfg
from isaaclab.utils import configclass

from isaaclab_pc.assets.articulated.cfg import cabinet_cfg
from isaaclab_pc.envs import PointCloudEnvCfg, PointCloudSceneCfg, depth_camera_cfg


@configclass
class OpenDrawerSceneCfg(PointCloudSceneCfg):
    """The shared scene and a cabinet on the table; the camera stands beside the robot and sees the drawer's front."""

    cabinet: ArticulationCfg = cabinet_cfg()
    camera: CameraCfg | None = depth_camera_cfg((0.03, 0.53, 0.52), (0.52, 0.0, 0.15))


@configclass
class OpenDrawerEnvCfg(PointCloudEnvCfg):
    """Pull the drawer of a cabinet open by its handle."""

    scene: OpenDrawerSceneCfg = OpenDrawerSceneCfg()
    episode_length_s: float = 4.0
    gripper: bool = True

    cabinets: Literal["one", "train", "held_out"] = "one"
    """The cabinets that are dealt out to the environments: one and the same, 48 to learn from, or 12 others."""

    cabinet_lower: tuple[float, float, float] = (0.62, -0.15, -0.35)
    """Smallest x [m], y [m] and yaw [rad] of the cabinet after a reset, in the environment frame; at yaw 0 the drawer
    opens towards the robot."""

    cabinet_upper: tuple[float, float, float] = (0.70, 0.15, 0.35)
    """Largest x [m], y [m] and yaw [rad] of the cabinet after a reset."""

    success_open: float = 0.9
    """Smallest share of the drawer's travel that counts as success."""

    success_speed: float = 0.1
    """Largest speed of the drawer that counts as success [m/s]."""

    def deal(self) -> None:
        """Put the set's cabinets into the scene."""
        if self.cabinets != "one":
            self.scene.cabinet.spawn = cabinet_cfg(self.cabinets).spawn
