# SPDX-License-Identifier: BSD-3-Clause
"""One rendered scene: its depth image, its whole cloud, and what each sampler keeps of it.

Run ``python benchmarks/sampler_picture.py --out docs/images/samplers.png``. It also prints how far the points that
were dropped lie from the nearest one that was kept.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import gymnasium as gym
import matplotlib as mpl
import torch
from isaaclab.app import launch_simulation

import isaaclab_pc.tasks  # noqa: F401
from isaaclab_pc.physics import apply_physics
from isaaclab_pc.sensors import DepthToCloud
from isaaclab_pc.sensors.cloud_checks import SAMPLERS
from isaaclab_pc.settings import PhysicsSettings
from isaaclab_pc.tasks.lift.lift_env_cfg import LiftEnvCfg

mpl.use("Agg")
import matplotlib.pyplot as plt

CROP_LOWER = (0.25, -0.4, -0.01)
CROP_UPPER = (0.84, 0.4, 0.5)
VOXEL_SIZE = 0.03


def capture(width: int, height: int) -> dict[str, torch.Tensor]:
    """Render ``lift`` once and return the arguments of :class:`DepthToCloud` for one environment and one camera."""
    cfg: Any = LiftEnvCfg()
    cfg.scene.num_envs = 1
    cfg.sim.device = "cpu"
    cfg.seed = 0
    # Rays would render no image.
    cfg.scene.points.source = "image"
    cfg.scene.camera.width = width
    cfg.scene.camera.height = height
    apply_physics(cfg, PhysicsSettings())

    with launch_simulation(cfg, {"device": "cpu", "headless": True}):
        env: Any = gym.make("IsaacPC-Lift-Cube-Franka-Direct", cfg=cfg).unwrapped
        env.reset(seed=2)
        data = env.camera.data
        scene = {
            "depth": data.output["depth"].torch.permute(0, 3, 1, 2).clone(),
            "intrinsics": data.intrinsic_matrices.torch[:, None].clone(),
            "camera_pos": data.pos_w.torch[:, None] - env.scene.env_origins[:, None],
            "camera_quat": data.quat_w_ros.torch[:, None].clone(),
            "keys": torch.zeros(1, dtype=torch.int32),
        }
        env.close()
    return scene


def sample(scene: dict[str, Any], sampler: Any, num_points: int) -> torch.Tensor:
    """Return the distinct points of one cloud, shape (M, 3)."""
    height, width = scene["depth"].shape[2:]
    operator = DepthToCloud(
        1,
        [(height, width)],
        num_points,
        sampler=sampler,
        crop_lower=CROP_LOWER,
        crop_upper=CROP_UPPER,
        voxel_size=VOXEL_SIZE,
        dtype="float32",
    )
    cloud = operator(**scene)
    return cloud.points[cloud.mask]


def main() -> None:
    """Draw the picture and print each sampler's coverage."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/images/samplers.png"))
    parser.add_argument("--num_points", type=int, default=400)
    parser.add_argument("--width", type=int, default=160)
    parser.add_argument("--height", type=int, default=120)
    args = parser.parse_args()

    scene = capture(args.width, args.height)
    everything = sample(scene, "random", args.width * args.height)
    clouds = {name: sample(scene, name, args.num_points) for name in SAMPLERS}
    for name, points in clouds.items():
        nearest = torch.cdist(everything, points).amin(dim=1) * 1e3
        print(f"{name:>7}: {len(points)} points, nearest kept point {nearest.mean():.1f} mm away on average, "
              f"{nearest.max():.1f} mm at most")  # fmt: skip

    figure = plt.figure(figsize=(13, 8), layout="constrained")
    image = figure.add_subplot(2, 3, 1)
    picture = image.imshow(scene["depth"][0, 0].where(scene["depth"][0, 0] > 0, torch.nan), cmap="viridis", vmax=2.0)
    image.set_title(f"depth image, {args.width} x {args.height} px [m]")
    figure.colorbar(picture, ax=image, shrink=0.7)
    panels = {f"every pixel of the crop ({len(everything)})": everything}
    panels |= {f"{name} ({len(points)})": points for name, points in clouds.items()}
    for index, (title, points) in enumerate(panels.items()):
        axes: Any = figure.add_subplot(2, 3, 2 + index, projection="3d")
        axes.scatter(*points.T, c=points[:, 2], s=3 if index == 0 else 9, cmap="viridis", vmax=0.12, depthshade=False)
        axes.set(title=title, xlabel="x [m]", ylabel="y [m]", zlabel="z [m]")
        axes.set(xlim=(0.25, 0.85), ylim=(-0.4, 0.4), zlim=(0.0, 0.5))
        axes.set_box_aspect((0.6, 0.8, 0.5), zoom=1.15)
        axes.view_init(elev=35, azim=25)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(args.out, dpi=70)


if __name__ == "__main__":
    main()
