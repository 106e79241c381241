# SPDX-License-Identifier: BSD-3-Clause
"""Configuration of the environment that all tasks share."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Literal, get_args, get_origin

import isaaclab.sim as sim_utils
import numpy as np
from isaaclab.assets import AssetBaseCfg, RigidObjectCfg
from isaaclab.envs import DirectRLEnvCfg
from isaaclab.scene import InteractiveSceneCfg
from isaaclab.sensors import CameraCfg
from isaaclab.sim import CuboidCfg, SimulationCfg
from isaaclab.utils import configclass, replace
from isaaclab.visualizers import VisualizerCfg
from scipy.spatial.transform import Rotation

from isaaclab_pc.assets.arm import ArmCfg
from isaaclab_pc.assets.franka import FRANKA_PANDA_PRIMITIVE_CFG
from isaaclab_pc.assets.primitives import Vector, ground_cfg, table_cfg
from isaaclab_pc.envs.arm_checks import check_arm_cfg
from isaaclab_pc.errors import ConfigError, closest
from isaaclab_pc.guards import GuardCfg
from isaaclab_pc.physics.presets import PhysicsPresetsCfg
from isaaclab_pc.sensors import GivenPointsCfg, LazyWarpRendererCfg, PointCloudCfg
from isaaclab_pc.sensors.scene_cameras import check_camera

_SEEN_BESIDE = 10.0
"""How far beside an environment its cameras may see ground [m]."""


def depth_camera_cfg(
    eye: Vector,
    target: Vector,
    *,
    width: int = 640,
    height: int = 480,
    fov_deg: float = 75.0,
    prim_path: str = "{ENV_REGEX_NS}/Camera",
    up: Vector = (0.0, 0.0, 1.0),
) -> CameraCfg:
    """Return a depth camera, one per environment, of planar depth [m] and semantic ids, by Newton's Warp renderer.

    Size and field of view are those of a RealSense D435 at 640 x 480 pixels.

    Args:
        eye: Camera position [m], in the frame of the environment, or of the body that it is fixed to.
        target: Point the optical axis passes through, in the same frame [m].
        width: Columns [px].
        height: Rows [px].
        fov_deg: Horizontal field of view [deg].
        prim_path: Where the camera is; below a body of the robot it moves with it.
        up: Direction that is up in the image, in the same frame.

    Raises:
        ConfigError: The camera looks along ``up``, or at where it is.
    """
    if np.linalg.norm(np.cross(np.subtract(target, eye), up)) < 1e-6:
        raise ConfigError(
            f"depth_camera_cfg: from {eye} to {target}, nothing is up in the image with up={up}. Give another up; a "
            "camera that looks straight down takes up=(1.0, 0.0, 0.0)."
        )
    forward = np.subtract(target, eye) / np.linalg.norm(np.subtract(target, eye))
    right = np.cross(forward, up)
    right /= np.linalg.norm(right)
    # Columns are the axes of the optical frame: x to the right, y down, z forward.
    optical = np.stack([right, np.cross(forward, right), forward], axis=1)
    x, y, z, w = Rotation.from_matrix(optical).as_quat().tolist()

    # Only the ratio of aperture to focal length matters.
    focal_length = 24.0
    return CameraCfg(
        prim_path=prim_path,
        offset=CameraCfg.OffsetCfg(pos=eye, rot=(x, y, z, w), convention="ros"),
        spawn=sim_utils.PinholeCameraCfg(
            focal_length=focal_length,
            horizontal_aperture=2.0 * focal_length * float(np.tan(np.radians(fov_deg) / 2.0)),
            clipping_range=(0.01, 5.0),
        ),
        width=width,
        height=height,
        data_types=["depth", "semantic_segmentation"],
        renderer_cfg=LazyWarpRendererCfg(colorize_semantic_segmentation=False),
        update_latest_camera_pose=True,
    )


def workspace_points_cfg(
    num_points: int, crop_lower: Vector, crop_upper: Vector, cameras: Sequence[str] = ("camera",)
) -> PointCloudCfg:
    """Return the cloud of a workspace relative to the tool centre, without the robot's own pixels.

    Segmentation drops the robot's pixels; on a real robot a self-filter does that. The crop's corners are in the
    environment frame [m]; ``cameras`` are the names of the scene's that see it.
    """
    return PointCloudCfg(
        cameras=cameras,
        num_points=num_points,
        frame="gripper",
        gripper_body=FRANKA_PANDA_PRIMITIVE_CFG.hand,
        gripper_offset=(0.0, 0.0, FRANKA_PANDA_PRIMITIVE_CFG.tcp_offset),
        crop_frame="env",
        crop_lower=crop_lower,
        crop_upper=crop_upper,
        remove=("robot",),
    )


@configclass
class PointCloudSceneCfg(InteractiveSceneCfg):
    """Robot, table, ground, one depth camera and its point cloud; tasks add their objects."""

    num_envs: int = 64
    env_spacing: float = 2.5
    ground: AssetBaseCfg = ground_cfg(height=-0.4)
    table: AssetBaseCfg = table_cfg()
    robot: ArmCfg = replace(FRANKA_PANDA_PRIMITIVE_CFG, prim_path="{ENV_REGEX_NS}/Robot")
    camera: CameraCfg | None = depth_camera_cfg((1.35, 0.0, 0.75), (0.5, 0.0, 0.2))
    wrist_camera: CameraCfg | None = None
    """A second camera, on the hand; for clouds only."""

    points: PointCloudCfg | None = workspace_points_cfg(256, (0.2, -0.4, 0.015), (0.85, 0.4, 0.6))
    """Begins above what a real camera's noise and calibration lift of the table: 5 mm above it, with the errors of
    ``sim2real``, 61 % of the points in ``lift`` are the table's, 15 mm above it 2 %."""


@configclass
class PointCloudEnvCfg(DirectRLEnvCfg):
    """Base of every task's configuration. The environment sets the sizes of the spaces at the start."""

    sim: SimulationCfg = SimulationCfg(
        dt=1.0 / 60.0,
        render_interval=2,
        physics=PhysicsPresetsCfg(),  # pyright: ignore[reportArgumentType]  # resolved before the simulation starts
        default_visualizer_cfg=VisualizerCfg(eye=(1.6, 1.2, 1.0), lookat=(0.4, 0.0, 0.2)),
    )
    decimation: int = 2
    scene: PointCloudSceneCfg = PointCloudSceneCfg()

    action_space: int = 0
    observation_space: int = 0
    state_space: int = 0

    obs: Literal["points", "depth", "state"] = "points"
    """Observation of the policy beside proprioception: a point cloud, the depth image, or the privileged state."""

    history_length: int = 1
    """Frames of proprioception and cloud or depth image that the policy observes at once, the present one among them,
    with ``obs=points`` and ``obs=depth``. All are the present one in the first step of an episode. The critic, which
    is told the state, has no history."""

    reward: Literal["dense", "sparse"] = "dense"
    """``dense``: the sum of the task's terms; ``sparse``: 1 in a step in which the task is fulfilled, else 0."""

    guard: GuardCfg = GuardCfg()

    robots: tuple[str, ...] = ("franka",)
    """Arms with which the task was solved; the setting ``robot`` takes no others."""

    gripper: bool = False
    """Whether the last action commands the gripper."""

    gripper_action: Literal["binary", "continuous"] = "binary"
    """``binary`` opens for a command above 0 and closes for any other; ``continuous`` goes from closed at -1 to open at
    1."""

    action: Literal["tool_delta", "tool_pose", "joint_delta", "joint_position"] = "tool_delta"
    """Meaning and size of the arm's part of an action: see :class:`~isaaclab_pc.envs.arm_control.ArmControl`."""

    tool_delta: float = 0.03
    """Change of the tool's target at action 1 [m]."""

    tool_rotation: float = 0.1
    """Rotation of the tool's target about an axis at action 1 [rad], with ``action="tool_pose"``."""

    joint_delta: float = 0.07
    """Largest change of an arm joint's target in a step [rad]; at 30 Hz, 0.07 rad is just below the speed limits."""

    reset_joint_noise: float = 0.1
    """Largest offset of an arm joint from its default position at a reset [rad]."""

    randomization: Literal["none", "default", "hard"] = "none"
    """Level of domain randomization, in addition to what the task draws itself: see
    :data:`~isaaclab_pc.envs.randomization.LEVELS`."""

    randomized: tuple[str, ...] = ()
    """Names of the scene's objects of which the level randomizes size, mass and friction."""

    goal_points: int = 0
    """Number of points, on a sphere of ``goal_radius`` around the task's goal, that are appended to the cloud; 0: none.
    The goal in the proprioception stays."""

    goal_radius: float = 0.02
    """Radius of that sphere [m]."""

    drawn: bool = False
    """Whether a viewer draws the bodies and the cameras' images, which takes memory where nothing else needs them."""

    depth_size: tuple[int, int] = (60, 80)
    """Rows and columns of the image of ``obs=depth``, which has the camera's field of view: unlike a cloud, it costs as
    many rays as it has pixels."""

    max_depth: float = 5.0
    """Depth beyond which ``obs=depth`` reads 0, like a miss [m]."""

    def deal(self) -> None:
        """Put into the scene what differs between environments; raises ConfigError where the physics cannot hold it."""

    def check(self) -> None:
        """Raise ConfigError, naming the field and near names, for what no environment can have."""
        for field in dataclasses.fields(self):
            value, choices = getattr(self, field.name), get_args(field.type)
            if get_origin(field.type) is Literal and value not in choices:
                raise ConfigError(f"env.{field.name}={value} is unknown: {closest(str(value), choices)}")
        if len(self.depth_size) != 2 or min(self.depth_size) < 1:
            raise ConfigError(f"env.depth_size={list(self.depth_size)}: expected rows and columns, each at least 1.")
        if self.history_length < 1:
            raise ConfigError(f"env.history_length={self.history_length} must be at least 1, the present frame alone.")
        if self.history_length > 1 and self.obs == "state":
            raise ConfigError(
                f"env.history_length={self.history_length} with obs=state: the state is no camera's, and has no "
                "history. Leave it out, or use obs=points or obs=depth."
            )
        check_arm_cfg(self.scene.robot, self.gripper)
        for name in self.randomized:
            if getattr(self.scene, name, None) is None:
                objects = [key for key, value in vars(self.scene).items() if isinstance(value, RigidObjectCfg)]
                raise ConfigError(f"env.randomized: the scene has no object {name}: {closest(name, objects)}")
        for name, part in vars(self.scene).items():
            if isinstance(part, CameraCfg) and name not in self.unseen():
                check_camera(part, f"env.scene.{name}")

    def unseen(self) -> tuple[str, ...]:
        """Return the names of the scene's sensors that ``obs`` does not need: they are removed before it is built."""
        if self.obs == "state":
            return ("camera", "wrist_camera", "points")
        return ("wrist_camera", "points") if self.obs == "depth" else ()

    def unrendered(self) -> tuple[str, ...]:
        """Return the names of the scene's sensors that render no image: removed ones, or cameras of rays."""
        points = self.scene.points
        if self.obs != "points" or points is None or self.drawn:
            return self.unseen()
        cameras = [getattr(self.scene, name) for name in points.cameras]
        return tuple(points.cameras) if points.casts_rays(cameras) else ()


def use_robot(cfg: PointCloudEnvCfg, robot: ArmCfg) -> None:
    """Replace the scene's arm by another one, with its prim path; its gripper becomes the cloud's frame."""
    cfg.scene.robot = replace(robot, prim_path=cfg.scene.robot.prim_path)
    if cfg.scene.points is not None:
        cfg.scene.points.gripper_body = robot.hand
        cfg.scene.points.gripper_offset = (0.0, 0.0, robot.tcp_offset)


def remove_unused_sensors(cfg: PointCloudEnvCfg) -> None:
    """Remove from the scene the sensors that ``cfg.obs`` does not need, and let cameras render only what it needs.

    Raises:
        ConfigError: The point cloud does not fit the camera.
    """
    for name in cfg.unseen():
        setattr(cfg.scene, name, None)

    if cfg.scene.camera is not None:
        cfg.scene.camera.data_types = ["depth"]
    fit_depth_camera(cfg)

    points = cfg.scene.points
    if points is not None:
        append_goal(cfg)
        check_points(cfg)
        points.source = "rays" if cfg.unrendered() else "image"
        for name in points.cameras:
            getattr(cfg.scene, name).data_types = list(points.data_types())


def fit_depth_camera(cfg: PointCloudEnvCfg) -> None:
    """Give the camera of ``obs=depth`` the image's size; changes the config."""
    if cfg.obs == "depth" and cfg.scene.camera is not None:
        cfg.scene.camera.height, cfg.scene.camera.width = cfg.depth_size


def extend_ground(cfg: PointCloudEnvCfg) -> None:
    """Enlarge the ground so that every environment has it below, as far as a camera sees; changes the config."""
    ground = getattr(cfg.scene, "ground", None)
    if ground is None or not isinstance(ground.spawn, CuboidCfg):
        return
    # Isaac Lab sets environments out in a square around the origin.
    edge = math.ceil(math.sqrt(cfg.scene.num_envs)) * cfg.scene.env_spacing + 2.0 * _SEEN_BESIDE
    width, depth, height = ground.spawn.size
    ground.spawn.size = (max(width, edge), max(depth, edge), height)


def append_goal(cfg: PointCloudEnvCfg) -> None:
    """Append ``cfg.goal_points`` that show the goal to the cloud, in the place of those appended before."""
    points = cfg.scene.points
    if points is None or cfg.goal_points == 0:
        return
    others = [part for part in points.append if getattr(part, "name", None) != "goal"]
    points.append = [*others, GivenPointsCfg(num_points=cfg.goal_points, name="goal")]


def check_points(cfg: PointCloudEnvCfg) -> None:
    """Raise ConfigError for a cloud that its cameras cannot fill or that names a missing one."""
    points = cfg.scene.points
    assert points is not None
    missing = [name for name in points.cameras if getattr(cfg.scene, name, None) is None]
    if missing:
        raise ConfigError(f"env.scene.points.cameras={list(points.cameras)}: the scene has no {', '.join(missing)}.")
    cameras = [getattr(cfg.scene, name) for name in points.cameras]
    points.check([(camera.height, camera.width) for camera in cameras])
    # Refuses rays that cannot be cast.
    points.casts_rays(cameras)
