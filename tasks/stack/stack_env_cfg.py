# SPDX-License-Identifier: BSD-3-Clause
"""Configuration of the stack task."""

import math

from isaaclab.assets import RigidObjectCfg
from isaaclab.utils import configclass

from isaaclab_pc.assets.primitives import cube_cfg
from isaaclab_pc.envs import PointCloudEnvCfg, PointCloudSceneCfg
from isaaclab_pc.physics.presets import newton_presets

CUBE_EDGE = 0.04
"""Edge length of both cubes [m]."""


@configclass
class StackSceneCfg(PointCloudSceneCfg):
    """The shared scene and two cubes: A is to stand on B."""

    cube_a: RigidObjectCfg = cube_cfg("{ENV_REGEX_NS}/CubeA", edge=CUBE_EDGE, pos=(0.5, 0.06, CUBE_EDGE / 2))
    cube_b: RigidObjectCfg = cube_cfg(
        "{ENV_REGEX_NS}/CubeB",
        edge=CUBE_EDGE,
        pos=(0.5, -0.06, CUBE_EDGE / 2),
        label="base",
        color=(0.10, 0.60, 0.20),
    )


@configclass
class StackEnvCfg(PointCloudEnvCfg):
    """Put cube A on cube B and let go."""

    scene: StackSceneCfg = StackSceneCfg()
    episode_length_s: float = 6.0
    gripper: bool = True
    randomized: tuple[str, ...] = ("cube_a", "cube_b")

    middle_lower: tuple[float, float] = (0.42, -0.12)
    """Smallest x and y of the point midway between the cubes after a reset, in the environment frame [m]."""

    middle_upper: tuple[float, float] = (0.58, 0.12)
    """Largest x and y of the point midway between the cubes after a reset [m]."""

    apart_lower: tuple[float, float] = (0.095, -math.pi)
    """Smallest distance between the cubes' centres [m] and bearing of cube A from cube B [rad] after a reset. With
    0.095 m the open gripper around one cube is clear of the other, however the cubes and the gripper are turned, with
    the sizes of ``env.randomization``, too."""

    apart_upper: tuple[float, float] = (0.2, math.pi)
    """Largest distance between the cubes' centres [m] and bearing of cube A from cube B [rad] after a reset."""

    yaw: float = math.pi / 4
    """Largest yaw of a cube after a reset [rad]; by symmetry an eighth of a turn is every yaw."""

    success_offset: float = math.hypot(CUBE_EDGE / 2, CUBE_EDGE / 2) + 0.005
    """Largest distance between the cubes' centres in the table's plane that counts as success [m]."""

    success_height: float = 0.005
    """Largest error of cube A's height above cube B that counts as success [m]."""

    success_speed: float = 0.01
    """Largest speed of cube A that counts as success [m/s]."""

    success_spin: float = 0.5
    """Largest angular speed of cube A that counts as success [rad/s]."""

    def __post_init__(self) -> None:
        """Let stacked cubes stand still on Newton: they rock with the collision detection that the other tasks need."""
        for physics in newton_presets(self.sim.physics):
            manager = "isaaclab_pc.physics.box_contacts:NewtonBoxContactManager"
            physics.class_type = manager
            physics.solver_cfg.class_type = manager
            # Two cubes that stand on each other in the fingers have 174 rows.
            physics.solver_cfg.njmax = 300
