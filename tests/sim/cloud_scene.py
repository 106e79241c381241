# SPDX-License-Identifier: BSD-3-Clause
"""A plain Isaac Lab environment with the clouds that the sensor's tests compare."""

from typing import Any

import isaaclab.sim as sim_utils
import torch
from isaaclab.assets import ArticulationCfg, AssetBaseCfg, RigidObjectCfg
from isaaclab.envs import DirectRLEnv, DirectRLEnvCfg
from isaaclab.scene import InteractiveSceneCfg
from isaaclab.sensors import CameraCfg
from isaaclab.sim import SimulationCfg
from isaaclab.utils import configclass, replace
from isaaclab_newton.renderers import NewtonWarpRendererCfg

from isaaclab_pc.assets.franka import FRANKA_PANDA_PRIMITIVE_CFG
from isaaclab_pc.assets.primitives import cube_cfg, table_cfg
from isaaclab_pc.envs import depth_camera_cfg
from isaaclab_pc.physics.presets import PhysicsPresetsCfg
from isaaclab_pc.sensors import BodyPointsCfg, DepthRealismCfg, GivenPointsCfg, PointCloudCfg
from isaaclab_pc.sensors.realism.cfg import GaussianNoiseCfg, StereoNoiseCfg, StructuredLightNoiseCfg

NUM_ENVS = 3
CUBE_EDGE = 0.05
DATA_TYPES = ["depth", "semantic_segmentation", "rgb"]


def wrist_camera_cfg() -> CameraCfg:
    """A camera on the hand that looks at the fingertips, with Isaac Lab's default of a pose that is never renewed."""
    return CameraCfg(
        prim_path="{ENV_REGEX_NS}/Robot/panda_hand/Camera",
        offset=CameraCfg.OffsetCfg(pos=(0.07, 0.0, 0.0), convention="ros"),
        spawn=sim_utils.PinholeCameraCfg(clipping_range=(0.01, 3.0)),
        width=20,
        height=16,
        data_types=DATA_TYPES,
        renderer_cfg=NewtonWarpRendererCfg(colorize_semantic_segmentation=False),
    )


def cloud_cfg(**changes: Any) -> PointCloudCfg:
    box = {"crop_lower": (0.2, -0.5, -0.01), "crop_upper": (0.84, 0.5, 0.6), "crop_frame": "env"}
    return PointCloudCfg(**{"cameras": ("front", "wrist"), "num_points": 300, "dtype": "float32", **box, **changes})


def compared_cfg(source: str, num_points: int = 1200, **changes: Any) -> PointCloudCfg:
    """A cloud in a turned frame that holds less than all of the table, with all that rays can tell."""
    told: dict[str, Any] = dict(
        source=source,
        num_points=num_points,
        frame="gripper",
        crop_frame="robot",
        crop_upper=(0.7, 0.5, 0.6),
        remove=("robot",),
        features=("rgb", "normals", "segmentation", "one_hot", "camera"),
        classes=("table", "cube"),
    )
    return cloud_cfg(**{**told, **changes})


def erring_cfg(
    source: str, noise: GaussianNoiseCfg | StereoNoiseCfg | StructuredLightNoiseCfg, **changes: Any
) -> PointCloudCfg:
    """A cloud that holds all of the table, also where the calibration errs: no noise brings in what is outside."""
    realism = DepthRealismCfg(
        noise=noise,
        edge_threshold=0.02,
        quantization=0.001,
        min_range=0.1,
        max_range=1.5,
        dropout=(0.0, 0.2),
        position_jitter=0.01,
        rotation_jitter=0.02,
        focal_jitter=0.02,
        principal_point_jitter=1.0,
    )
    told: dict[str, Any] = dict(
        crop_lower=(-0.5, -1.5, -0.06),
        crop_upper=(2.0, 1.5, 0.6),
        features=("segmentation", "camera"),
        classes=(),
        realism=realism,
    )
    return compared_cfg(source, **{**told, **changes})


def fine_cfg(source: str, noise: GaussianNoiseCfg | StereoNoiseCfg | StructuredLightNoiseCfg) -> PointCloudCfg:
    """A fine camera's cloud above the table: the cube, and points that rare noise and mixtures lift there."""
    realism = DepthRealismCfg(noise=noise, flying_pixels=0.2)
    classes = dict(features=("one_hot",), classes=("table", "cube"))
    box = {"crop_lower": (0.2, -0.5, 0.003), "crop_upper": (0.7, 0.5, 0.6)}
    return erring_cfg(source, noise, cameras=("fine",), num_points=6000, realism=realism, **box, **classes)


STEREO = StereoNoiseCfg(disparity_std=0.05, disparity_step=0.02, lateral_std=0.7, focal_length=None)
STRUCTURED_LIGHT = StructuredLightNoiseCfg(focal_length=None)
CLOSE = DepthRealismCfg(noise=STEREO, dropout=0.4, quantization=0.003, max_range=0.9, position_jitter=0.03)
FINE_STEREO = StereoNoiseCfg(disparity_std=0.08, lateral_std=0.5)
FINE_LIGHT = StructuredLightNoiseCfg(scale=1.3)
SHADOW_BASELINE = 0.8  # [m], long, since a pixel is large
MAX_INCIDENCE = 1.0  # [rad]
RIGHT = (1.0, 0.0, 0.0)
"""Along the image's rows, in the optical frame."""


def in_camera_cfg(**changes: Any) -> PointCloudCfg:
    """All that the fixed camera sees, in its own frame."""
    box = {"crop_frame": "camera", "crop_lower": (-1.0, -1.0, 0.0), "crop_upper": (1.0, 1.0, 2.0)}
    return cloud_cfg(cameras=("front",), num_points=1200, frame="camera", **box, **changes)


@configclass
class SceneCfg(InteractiveSceneCfg):
    num_envs: int = NUM_ENVS
    env_spacing: float = 2.0
    table: AssetBaseCfg = table_cfg()
    robot: ArticulationCfg = replace(FRANKA_PANDA_PRIMITIVE_CFG, prim_path="{ENV_REGEX_NS}/Robot")
    cube: RigidObjectCfg = cube_cfg(edge=CUBE_EDGE, pos=(0.5, 0.0, CUBE_EDGE / 2))
    front: CameraCfg = replace(
        depth_camera_cfg((1.2, 0.3, 0.6), (0.5, 0.0, 0.05), width=40, height=30, fov_deg=45.0), data_types=DATA_TYPES
    )
    fine: CameraCfg = replace(
        depth_camera_cfg((1.2, 0.3, 0.6), (0.5, 0.0, 0.05), width=320, height=240, fov_deg=60.0), data_types=DATA_TYPES
    )
    wrist: CameraCfg = wrist_camera_cfg()
    points: PointCloudCfg = cloud_cfg(
        remove=("robot",), features=("rgb", "normals", "segmentation", "one_hot", "camera"), classes=("table", "cube")
    )
    everything: PointCloudCfg = cloud_cfg(
        num_points=1500, crop_lower=(-1.0, -1.0, -0.01), crop_upper=(2.0, 2.0, 2.0), features=("segmentation",)
    )
    in_robot: PointCloudCfg = cloud_cfg(frame="robot", sampler="fps", remove=("robot",))
    in_gripper: PointCloudCfg = cloud_cfg(
        frame="gripper",
        sampler="grid",
        remove=("robot",),
        append=(
            BodyPointsCfg(num_points=40, bodies=["panda_.*finger"]),
            BodyPointsCfg(num_points=24, asset="cube"),
            GivenPointsCfg(num_points=2, name="goal"),
        ),
        features=("camera",),
    )
    in_camera: PointCloudCfg = cloud_cfg(frame="camera", sampler="voxel", voxel_size=0.02, remove=("robot",))
    miscalibrated: PointCloudCfg = cloud_cfg(
        cameras=("front",), frame="camera", realism=DepthRealismCfg(position_jitter=0.02, rotation_jitter=0.05)
    )
    late: PointCloudCfg = cloud_cfg(cameras=("wrist",), num_points=64, realism=DepthRealismCfg(latency=2))
    prompt: PointCloudCfg = cloud_cfg(cameras=("wrist",), num_points=64)
    rays: PointCloudCfg = compared_cfg("rays")
    image: PointCloudCfg = compared_cfg("image")
    in_optical_frame: PointCloudCfg = in_camera_cfg()
    fine_stereo_rays: PointCloudCfg = fine_cfg("rays", FINE_STEREO)
    fine_stereo_image: PointCloudCfg = fine_cfg("image", FINE_STEREO)
    fine_light_rays: PointCloudCfg = fine_cfg("rays", FINE_LIGHT)
    fine_light_image: PointCloudCfg = fine_cfg("image", FINE_LIGHT)
    shadowed: PointCloudCfg = in_camera_cfg(realism=DepthRealismCfg(shadow_baseline=SHADOW_BASELINE))
    steep_too: PointCloudCfg = in_camera_cfg(features=("normals",))
    flat_alone: PointCloudCfg = in_camera_cfg(realism=DepthRealismCfg(max_incidence=MAX_INCIDENCE))
    of_nothing: PointCloudCfg = cloud_cfg(crop_lower=(9.0, 9.0, 9.0), crop_upper=(10.0, 10.0, 10.0))
    few_rays: PointCloudCfg = compared_cfg("rays", num_points=40)
    gaussian_rays: PointCloudCfg = erring_cfg("rays", GaussianNoiseCfg(std=0.004), realism_of={"wrist": CLOSE})
    gaussian_image: PointCloudCfg = erring_cfg("image", GaussianNoiseCfg(std=0.004), realism_of={"wrist": CLOSE})
    stereo_rays: PointCloudCfg = erring_cfg("rays", STEREO)
    stereo_image: PointCloudCfg = erring_cfg("image", STEREO)
    light_rays: PointCloudCfg = erring_cfg("rays", STRUCTURED_LIGHT)
    light_image: PointCloudCfg = erring_cfg("image", STRUCTURED_LIGHT)


@configclass
class EnvCfg(DirectRLEnvCfg):
    sim: SimulationCfg = SimulationCfg(dt=1 / 60, render_interval=2, physics=PhysicsPresetsCfg())  # pyright: ignore
    scene: SceneCfg = SceneCfg()
    decimation: int = 2
    episode_length_s: float = 10.0
    action_space: int = 7
    observation_space: int = 3
    seed: int | None = 4


class PlainEnv(DirectRLEnv):
    """Moves the arm's joints; knows nothing of this package's environments."""

    cfg: EnvCfg

    def _pre_physics_step(self, actions: torch.Tensor) -> None:
        robot = self.scene["robot"]
        target = robot.data.joint_pos.torch[:, :7] + 0.05 * actions
        robot.actuators.target_command.set_position_index(value=target, joint_ids=list(range(7)))

    def _apply_action(self) -> None:
        pass

    def _get_observations(self) -> dict[str, torch.Tensor]:
        return {"policy": self.scene["points"].data.points.torch[:, 0, :3].clone()}

    def _get_rewards(self) -> torch.Tensor:
        return torch.zeros(self.num_envs)

    def _get_dones(self) -> tuple[torch.Tensor, torch.Tensor]:
        never = torch.zeros(self.num_envs, dtype=torch.bool)
        return never, never

    def _reset_idx(self, env_ids: Any) -> None:
        super()._reset_idx(env_ids)
        robot = self.scene["robot"]
        ids = torch.as_tensor(env_ids).int()
        position = robot.data.default_joint_pos.torch[ids.long()]
        robot.write_joint_position_to_sim_index(position=position, env_ids=ids)
        robot.write_joint_velocity_to_sim_index(velocity=torch.zeros_like(position), env_ids=ids)
