# SPDX-License-Identifier: BSD-3-Clause
"""Configuration of the valve task."""

import math
from typing import Literal

from isaaclab.assets import ArticulationCfg
from isaaclab.sensors import CameraCfg
from isaaclab.utils import configclass

from isaaclab_pc.assets.articulated.cfg import valve_cfg
from isaaclab_pc.envs import PointCloudEnvCfg, PointCloudSceneCfg, depth_camera_cfg


@configclass
class TurnValveSceneCfg(PointCloudSceneCfg):
    """The shared scene and a valve on the table; the camera is low enough to look below the hand."""

    valve: ArticulationCfg = valve_cfg()
    camera: CameraCfg | None = depth_camera_cfg((1.13, 0.37, 0.47), (0.51, 0.0, 0.1))


@configclass
class TurnValveEnvCfg(PointCloudEnvCfg):
    """Turn a valve by its knob."""

    scene: TurnValveSceneCfg = TurnValveSceneCfg()
    episode_length_s: float = 5.0
    gripper: bool = True

    valves: Literal["one", "train", "held_out"] = "one"
    """The valves that are dealt out to the environments: one and the same, 48 to learn from, or 16 others."""

    valve_lower: tuple[float, float] = (0.46, -0.12)
    """Smallest x and y of the valve after a reset, in the environment frame [m]."""

    valve_upper: tuple[float, float] = (0.56, 0.12)
    """Largest x and y of the valve after a reset, in the environment frame [m]."""

    target_lower: float = math.radians(45.0)
    """Smallest angle to turn by, in either direction [rad]."""

    target_upper: float = math.radians(120.0)
    """Largest angle to turn by, in either direction [rad]."""

    def deal(self) -> None:
        """Put the set's valves into the scene."""
        if self.valves != "one":
            self.scene.valve.spawn = valve_cfg(self.valves).spawn
