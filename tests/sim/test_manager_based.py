# SPDX-License-Identifier: BSD-3-Clause
"""The sensor and its observation term in a manager-based Isaac Lab environment."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from isaaclab.app import launch_simulation
from isaaclab.assets import ArticulationCfg, AssetBaseCfg, RigidObjectCfg
from isaaclab.envs import ManagerBasedEnv, ManagerBasedEnvCfg, mdp
from isaaclab.managers import EventTermCfg, ObservationGroupCfg, ObservationTermCfg, SceneEntityCfg
from isaaclab.scene import InteractiveSceneCfg
from isaaclab.sensors import CameraCfg
from isaaclab.sim import SimulationCfg
from isaaclab.utils import configclass, replace

from isaaclab_pc.assets.franka import FRANKA_PANDA_PRIMITIVE_CFG
from isaaclab_pc.assets.primitives import cube_cfg, table_cfg
from isaaclab_pc.envs import depth_camera_cfg
from isaaclab_pc.physics import apply_physics
from isaaclab_pc.physics.presets import PhysicsPresetsCfg, prepare_for_device
from isaaclab_pc.sensors import PointCloudCfg, cloud_points
from isaaclab_pc.settings import PhysicsSettings
from isaaclab_pc.settings.physics import Backend

pytestmark = pytest.mark.sim


@configclass
class SceneCfg(InteractiveSceneCfg):
    num_envs: int = 2
    env_spacing: float = 2.0
    table: AssetBaseCfg = table_cfg()
    robot: ArticulationCfg = replace(FRANKA_PANDA_PRIMITIVE_CFG, prim_path="{ENV_REGEX_NS}/Robot")
    cube: RigidObjectCfg = cube_cfg(edge=0.05, pos=(0.5, 0.0, 0.025))
    front: CameraCfg = depth_camera_cfg((1.2, 0.0, 0.6), (0.5, 0.0, 0.0), width=48, height=36, fov_deg=45.0)
    cloud: PointCloudCfg = PointCloudCfg(
        cameras=("front",), num_points=64, crop_lower=(0.3, -0.3, 0.001), crop_upper=(0.8, 0.3, 0.3), remove=("robot",)
    )


@configclass
class ObservationsCfg:
    @configclass
    class CloudCfg(ObservationGroupCfg):
        points = ObservationTermCfg(func=cloud_points, params={"sensor_cfg": SceneEntityCfg("cloud")})

    @configclass
    class PolicyCfg(ObservationGroupCfg):
        joint_pos = ObservationTermCfg(func=mdp.joint_pos_rel)

    policy: PolicyCfg = PolicyCfg()
    cloud: CloudCfg = CloudCfg()


@configclass
class ActionsCfg:
    arm = mdp.JointPositionActionCfg(asset_name="robot", joint_names=["panda_joint.*"], scale=0.1)


@configclass
class EventsCfg:
    reset = EventTermCfg(func=mdp.reset_scene_to_default, mode="reset")


@configclass
class EnvCfg(ManagerBasedEnvCfg):
    sim: SimulationCfg = SimulationCfg(dt=1 / 60, render_interval=2, physics=PhysicsPresetsCfg())  # pyright: ignore
    scene: SceneCfg = SceneCfg()
    observations: ObservationsCfg = ObservationsCfg()
    actions: ActionsCfg = ActionsCfg()
    events: EventsCfg = EventsCfg()
    decimation: int = 2


@pytest.fixture(scope="module")
def env(backend: Backend) -> Iterator[ManagerBasedEnv]:
    cfg: Any = EnvCfg()
    cfg.sim.device = "cpu"
    apply_physics(cfg, PhysicsSettings(backend=backend))
    with launch_simulation(cfg, {"device": "cpu", "headless": True}):
        prepare_for_device(cfg)
        env = ManagerBasedEnv(cfg)
        yield env
        env.close()


def test_the_observation_manager_returns_the_cloud(env: ManagerBasedEnv) -> None:
    observation: Any = env.reset(seed=1)[0]
    assert env.observation_manager.group_obs_dim["cloud"] == (64, 3)
    for _ in range(3):
        before = observation["cloud"].clone()
        observation = env.step(torch.zeros(2, env.action_manager.total_action_dim))[0]
        points = observation["cloud"].float()
        # Only the cube stands above the table: its faces are within half its diagonal of its centre.
        assert points.shape == (2, 64, 3)
        assert ((points - torch.tensor([0.5, 0.0, 0.025])).norm(dim=-1) < 0.0434 + 1e-3).all()
        assert (env.scene["cloud"].data.count.torch >= 5).all()
    assert before.data_ptr() != observation["cloud"].data_ptr()
