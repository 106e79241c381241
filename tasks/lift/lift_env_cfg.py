# SPDX-License-Identifier: BSD-3-Clause
"""Configuration of the tasks of lifting, and of the lift task."""

from isaaclab.assets import RigidObjectCfg
from isaaclab.utils import configclass

from isaaclab_pc.assets.primitives import cube_cfg
from isaaclab_pc.envs import PointCloudEnvCfg, PointCloudSceneCfg

CUBE_EDGE = 0.05
"""Edge length of the cube [m]; its diagonal, 0.07 m, fits between the open fingers at any yaw."""


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


@configclass
class LiftSceneCfg(PointCloudSceneCfg):
    """The shared scene and a cube on the table."""

    cube: RigidObjectCfg = cube_cfg(edge=CUBE_EDGE, pos=(0.5, 0.0, CUBE_EDGE / 2))


@configclass
class LiftEnvCfg(LiftingEnvCfg):
    """Grasp a cube and bring it to a goal above the table."""

    scene: LiftSceneCfg = LiftSceneCfg()
    robots: tuple[str, ...] = ("franka", "ur5e")
    episode_length_s: float = 4.0
    randomized: tuple[str, ...] = ("cube",)

    cube_lower: tuple[float, float, float] = (0.4, -0.2, -0.7854)
    """Smallest x [m], y [m] and yaw [rad] of the cube after a reset, in the environment frame."""

    cube_upper: tuple[float, float, float] = (0.6, 0.2, 0.7854)
    """Largest x [m], y [m] and yaw [rad] of the cube after a reset; by symmetry this is every yaw."""
