# SPDX-License-Identifier: BSD-3-Clause
"""The point-cloud sensor in a scene of your own: no task, no robot, no learning.

    python examples/cloud_in_your_scene.py

Two depth cameras look at a cube on a table. One sensor fuses them into a cloud of a fixed number of points for every
environment. It is an ordinary Isaac Lab sensor, so any scene or task config can hold one.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from isaaclab.app import launch_simulation
from isaaclab.assets import AssetBaseCfg, RigidObjectCfg
from isaaclab.scene import InteractiveScene, InteractiveSceneCfg
from isaaclab.sensors import CameraCfg
from isaaclab.sim import SimulationCfg, SimulationContext
from isaaclab.utils import configclass, replace
from isaaclab_newton.physics import NewtonCfg

from isaaclab_pc.assets.primitives import cube_cfg, table_cfg
from isaaclab_pc.envs import depth_camera_cfg
from isaaclab_pc.physics.presets import prepare_for_device
from isaaclab_pc.sensors import PointCloudCfg

CUBE_EDGE = 0.1
"""[m]"""


@configclass
class SceneCfg(InteractiveSceneCfg):
    """A cube on a table, seen from the left and from the right."""

    num_envs: int = 4
    env_spacing: float = 2.0
    table: AssetBaseCfg = table_cfg()
    cube: RigidObjectCfg = cube_cfg(edge=CUBE_EDGE, pos=(0.5, 0.0, CUBE_EDGE / 2))
    left: CameraCfg = replace(
        depth_camera_cfg((0.5, 0.6, 0.5), (0.5, 0.0, 0.0), width=64, height=48, fov_deg=40.0),
        prim_path="{ENV_REGEX_NS}/Left",
    )
    right: CameraCfg = replace(
        depth_camera_cfg((0.5, -0.6, 0.5), (0.5, 0.0, 0.0), width=64, height=48, fov_deg=40.0),
        prim_path="{ENV_REGEX_NS}/Right",
    )
    # Farthest points, in the environment's frame, of what stands above the table.
    points: PointCloudCfg = PointCloudCfg(
        cameras=("left", "right"),
        num_points=128,
        sampler="fps",
        frame="env",
        crop_frame="env",
        crop_lower=(0.3, -0.2, 0.005),
        crop_upper=(0.7, 0.2, 0.3),
        dtype="float32",
    )


def main() -> None:
    """Build the scene, let it settle, and print the cloud of each environment."""
    sim_cfg: Any = SimulationCfg(dt=1 / 120, device="cpu", physics=NewtonCfg(num_substeps=2))
    cfg: Any = SimpleNamespace(sim=sim_cfg, scene=SceneCfg())

    with launch_simulation(cfg, {"device": "cpu", "headless": True}):
        prepare_for_device(cfg)
        sim = SimulationContext(cfg.sim)
        try:
            scene = InteractiveScene(cfg.scene)
            # Isaac Lab's environments do this themselves; the sensor finds its cameras by it.
            sim.register_interactive_scene(scene)
            sim.reset()
            for _ in range(20):
                sim.step(render=False)
                scene.update(dt=cfg.sim.dt)

            data = scene["points"].data
            for env, (points, mask) in enumerate(zip(data.points.torch, data.mask.torch, strict=True)):
                seen = points[mask]
                low = seen.amin(dim=0).tolist()
                high = seen.amax(dim=0).tolist()
                print(f"environment {env}: {len(seen)} points from {low} to {high} m")
        finally:
            sim.clear_instance()


if __name__ == "__main__":
    main()
