# SPDX-License-Identifier: BSD-3-Clause
"""Configuration of the task of lifting any object."""

from typing import Literal

from isaaclab.assets import RigidObjectCfg
from isaaclab.sensors import CameraCfg
from isaaclab.utils import configclass, replace
from isaaclab_newton.physics import NewtonCfg

from isaaclab_pc.assets.franka import FRANKA_PANDA_PRIMITIVE_CFG
from isaaclab_pc.assets.objects.object_set import object_set_cfg
from isaaclab_pc.assets.objects.sets import check_set, load_set
from isaaclab_pc.envs import PointCloudSceneCfg, depth_camera_cfg, workspace_points_cfg
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.physics.presets import newton_presets
from isaaclab_pc.sensors import PointCloudCfg, short_range_stereo
from isaaclab_pc.tasks.lift.lift_env_cfg import LiftingEnvCfg
from isaaclab_pc.terminal.screen import current


@configclass
class LiftAnySceneCfg(PointCloudSceneCfg):
    """The shared scene, a camera on the hand, and an object on the table."""

    object: RigidObjectCfg = RigidObjectCfg(prim_path="{ENV_REGEX_NS}/Object")
    """Its shape is that of ``cfg.objects``."""

    camera: CameraCfg | None = depth_camera_cfg((1.25, 0.0, 0.75), (0.5, 0.0, 0.14), fov_deg=55.0)
    wrist_camera: CameraCfg | None = depth_camera_cfg(
        (0.07, 0.0, 0.0),
        (0.01, 0.0, 0.12),
        fov_deg=70.0,
        prim_path=f"{{ENV_REGEX_NS}}/Robot/{FRANKA_PANDA_PRIMITIVE_CFG.hand}/WristCamera",
        up=(0.0, 1.0, 0.0),
    )
    points: PointCloudCfg | None = replace(
        workspace_points_cfg(256, (0.15, -0.45, 0.004), (0.85, 0.45, 0.6), cameras=("camera", "wrist_camera")),
        features=("normals",),
        realism_of={"wrist_camera": short_range_stereo()},
    )


@configclass
class LiftAnyEnvCfg(LiftingEnvCfg):
    """Grasp an object of any shape and bring it to a goal above the table."""

    scene: LiftAnySceneCfg = LiftAnySceneCfg()
    episode_length_s: float = 5.0
    randomized: tuple[str, ...] = ("object",)
    action: Literal["tool_delta", "tool_pose", "joint_delta", "joint_position"] = "tool_pose"
    """As in the base class; ``tool_delta`` cannot turn the gripper to an object."""

    objects: str = "train"
    """The set of objects that are dealt out: ``train``, ``held_out``, or a folder of a set (``docs/objects.md``)."""

    object_lower: tuple[float, float, float] = (0.4, -0.2, -3.1416)
    """Smallest x [m], y [m] and yaw [rad] of the object after a reset, in the environment frame."""

    object_upper: tuple[float, float, float] = (0.6, 0.2, 3.1416)
    """Largest x [m], y [m] and yaw [rad] of the object after a reset: every yaw."""

    def __post_init__(self) -> None:
        """Let Newton find the contacts: MuJoCo's own would be those of the first environment's object everywhere."""
        for physics in newton_presets(self.sim.physics):
            physics.solver_cfg.use_mujoco_contacts = False
            physics.solver_cfg.nconmax = 200
            physics.solver_cfg.njmax = 700

    def check(self) -> None:
        """Raise ConfigError for what no environment can have, among it a set of objects that is not there."""
        super().check()
        check_set(self.objects)

    def deal(self) -> None:
        """Put the set's objects into the scene; makes the set where it is not made yet."""
        physics = self.sim.physics
        is_newton = isinstance(physics, NewtonCfg)
        if is_newton and getattr(physics.solver_cfg, "use_mujoco_contacts", False):
            raise ConfigError(
                "env.sim.physics.solver_cfg.use_mujoco_contacts=true lets all environments collide with the first "
                "one's object. Leave it out."
            )
        num_objects = len(load_set(self.objects, current().advance))
        if self.scene.num_envs < num_objects:
            current().say(
                f"objects={self.objects}: {self.scene.num_envs} of {num_objects} objects are dealt out, evenly spaced "
                "over the set"
            )
        self.scene.object = object_set_cfg(self.objects, self.scene.object.prim_path, padded=is_newton)
