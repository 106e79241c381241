# SPDX-License-Identifier: BSD-3-Clause
"""Configuration of the peg insertion task."""

from typing import Literal

from isaaclab.actuators import ImplicitActuatorCfg
from isaaclab.assets import ArticulationCfg, AssetBaseCfg, RigidObjectCfg
from isaaclab.cloner import CloneCfg
from isaaclab.sensors import CameraCfg
from isaaclab.utils import configclass, replace

from isaaclab_pc.assets.franka import FRANKA_PANDA_PRIMITIVE_CFG
from isaaclab_pc.assets.peg import box_with_hole_cfg, peg_and_box_variants, peg_cfg, same_variant_of_each
from isaaclab_pc.assets.primitives import table_cfg
from isaaclab_pc.envs import PointCloudEnvCfg, PointCloudSceneCfg, depth_camera_cfg, workspace_points_cfg
from isaaclab_pc.physics.presets import newton_presets
from isaaclab_pc.sensors import PointCloudCfg, short_range_stereo

_VARIANTS = peg_and_box_variants(16)


def _robot_with_firm_grip() -> ArticulationCfg:
    """Return the Panda with fingers that press with 12 to 20 N, by the peg's width."""
    # With the 6 to 10 N of the other tasks a peg held near its end turns in the fingers; with twice the force it no
    # longer gives way at the hole's edge and jams there (measured with the expert). The force stays within the
    # fingers' limit: at the limit nothing would centre the peg between them, since each moves by itself here.
    robot = replace(FRANKA_PANDA_PRIMITIVE_CFG, prim_path="{ENV_REGEX_NS}/Robot")
    hand = robot.actuators["panda_hand"]
    assert isinstance(hand, ImplicitActuatorCfg)
    firm = replace(hand, stiffness=800.0, damping=30.0)
    robot.actuators = {**robot.actuators, "panda_hand": firm}
    return robot


@configclass
class PegInsertSceneCfg(PointCloudSceneCfg):
    """The shared scene with a wider table, a peg that lies on it, and a box with a hole that stands on it."""

    table: AssetBaseCfg = table_cfg(size=(0.7, 1.2, 0.4))
    robot: ArticulationCfg = _robot_with_firm_grip()
    peg: RigidObjectCfg = peg_cfg(_VARIANTS)
    box: RigidObjectCfg = box_with_hole_cfg(_VARIANTS)
    camera: CameraCfg | None = depth_camera_cfg((1.15, -0.6, 0.55), (0.5, 0.05, 0.08))
    wrist_camera: CameraCfg | None = depth_camera_cfg(
        (0.06, 0.07, 0.02),
        (0.2, 0.0, 0.105),
        fov_deg=45.0,
        prim_path=f"{{ENV_REGEX_NS}}/Robot/{FRANKA_PANDA_PRIMITIVE_CFG.hand}/WristCamera",
        up=(0.0, 0.0, -1.0),
    )
    """Looks at the peg's head past its upper edge, so that two edges of the mouth are seen wherever the head is: from
    above, the peg hides the hole where it is too high, and from the fixed camera, the hand does."""

    points: PointCloudCfg | None = replace(
        workspace_points_cfg(512, (0.15, -0.6, 0.005), (0.85, 0.6, 0.5), cameras=("camera", "wrist_camera")),
        features=("normals",),
        realism_of={"wrist_camera": short_range_stereo()},
    )
    clone_cfg: CloneCfg = CloneCfg(clone_strategy=same_variant_of_each)


@configclass
class PegInsertEnvCfg(PointCloudEnvCfg):
    """Grasp a peg and put it into a box's hole."""

    scene: PegInsertSceneCfg = PegInsertSceneCfg()
    episode_length_s: float = 10.0
    gripper: bool = True
    randomized: tuple[str, ...] = ("peg",)
    action: Literal["tool_delta", "tool_pose", "joint_delta", "joint_position"] = "tool_pose"
    """As in the base class; ``tool_delta`` cannot turn the peg, and motions of single joints wind the arm up."""

    reset_joint_noise: float = 0.05
    """As in the base class; smaller, so that the hand stays above the box."""

    peg_lower: tuple[float, float, float] = (0.4, -0.3, 0.5236)
    """Smallest x [m], y [m] and yaw [rad] of the peg's middle after a reset, in the environment frame."""

    peg_upper: tuple[float, float, float] = (0.6, -0.12, 2.618)
    """Largest x [m], y [m] and yaw [rad] of the peg's middle; at a yaw of pi/2 its head points along y."""

    box_lower: tuple[float, float, float] = (0.45, 0.22, 1.1781)
    """Smallest x [m], y [m] and yaw [rad] of the box's middle after a reset, in the environment frame."""

    box_upper: tuple[float, float, float] = (0.55, 0.4, 1.9635)
    """Largest x [m], y [m] and yaw [rad] of the box's middle; at a yaw of pi/2 its hole runs along y."""

    success_depth: float = 0.015
    """Largest distance of the peg's head from the middle of the hole along its axis that counts as success [m]."""

    def __post_init__(self) -> None:
        """Let Newton hold a peg near its end: with pyramidal friction cones it creeps and turns in the fingers."""
        for physics in newton_presets(self.sim.physics):
            physics.solver_cfg.cone = "elliptic"
            physics.solver_cfg.impratio = 10.0
