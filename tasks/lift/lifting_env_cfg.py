# SPDX-License-Identifier: BSD-3-Clause
"""Configuration of the tasks of lifting."""

from isaaclab.utils import configclass

from isaaclab_pc.envs import PointCloudEnvCfg


@configclass
class LiftingEnvCfg(PointCloudEnvCfg):
    """Grasp an object and bring it to a goal above the table."""

    gripper: bool = True

    goal_lower: tuple[float, float, float] = (0.4, -0.2, 0.15)
    """Smallest goal of the object's centre of mass in the environment frame [m]."""

    goal_upper: tuple[float, float, float] = (0.6, 0.2, 0.35)
    """Largest goal of the object's centre of mass in the environment frame [m]."""

    success_distance: float = 0.025
    """Largest distance of the object's centre of mass from the goal that counts as success [m]."""

    success_joint_speed: float = 0.2
    """Largest speed of any arm joint that counts as success [rad/s]."""
