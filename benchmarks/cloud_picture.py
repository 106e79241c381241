# SPDX-License-Identifier: BSD-3-Clause
"""What the policy sees of ``reach``: the depth image, the whole cloud, and what is left without the robot.

Run ``python benchmarks/cloud_picture.py --out docs/images/reach_cloud.png``. It also prints how many points lie on the
target, over many resets: a policy cannot find what the cloud does not hold.
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
from isaaclab_pc.settings import PhysicsSettings
from isaaclab_pc.tasks.reach.reach_env_cfg import ReachEnvCfg

mpl.use("Agg")
import matplotlib.pyplot as plt

TASK = "IsaacPC-Reach-Franka-Direct"


def capture(remove: tuple[str, ...], num_points: int, num_envs: int, resets: int) -> dict[str, torch.Tensor]:
    """Return clouds (N, K, 3), depth (N, H, W), targets (N, 3) of the last reset, and counts of all (resets * N,)."""
    cfg: Any = ReachEnvCfg()
    cfg.scene.num_envs = num_envs
    cfg.sim.device = "cpu"
    cfg.seed = 0
    cfg.scene.points.remove = remove
    cfg.scene.points.num_points = num_points
    cfg.scene.points.frame = "env"
    if not remove:
        # The robot, too, is to be in the picture.
        cfg.scene.points.crop_lower = (-0.2, -0.6, -0.01)
    apply_physics(cfg, PhysicsSettings())

    with launch_simulation(cfg, {"device": "cpu", "headless": True}):
        env: Any = gym.make(TASK, cfg=cfg).unwrapped
        counts = []
        for seed in range(resets):
            points = env.reset(seed=seed)[0]["points"].float()
            counts.append(env.point_cloud.data.count.torch.clone())
        depth = env.camera.data.output["depth"].torch.squeeze(-1).clone()
        result = {"points": points, "depth": depth, "target": env.target_pos.clone(), "counts": torch.cat(counts)}
        env.close()
    return result


def main() -> None:
    """Draw the picture and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/images/reach_cloud.png"))
    args = parser.parse_args()
    everything = capture((), 1728, 2, 1)
    seen = capture(("robot",), 64, 64, 16)

    counts = seen["counts"].float()
    least, low, median = torch.quantile(counts, torch.tensor([0.0, 0.05, 0.5])).tolist()
    print(
        f"points on the target over {len(counts)} resets: least {least:.0f}, 5 % quantile {low:.0f}, "
        f"median {median:.0f}"
    )

    figure = plt.figure(figsize=(12, 4), layout="constrained")
    image = figure.add_subplot(1, 3, 1)
    picture = image.imshow(everything["depth"][0], cmap="viridis")
    image.set_title("depth image [m]")
    figure.colorbar(picture, ax=image, shrink=0.8)
    for index, (title, data) in enumerate({"every pixel of the workspace": everything, "observation": seen}.items()):
        axes: Any = figure.add_subplot(1, 3, 2 + index, projection="3d")
        points = data["points"][0]
        target = data["target"][0]
        axes.scatter(*points.T, c=points[:, 2], s=3 if index == 0 else 12, cmap="viridis")
        axes.scatter(*target[:, None], marker="x", color="red", s=40)
        axes.set(title=title, xlabel="x [m]", ylabel="y [m]", zlabel="z [m]")
        axes.set(xlim=(0.0, 0.9), ylim=(-0.45, 0.45), zlim=(0.0, 0.7))
        axes.view_init(elev=25, azim=20)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(args.out, dpi=80)


if __name__ == "__main__":
    main()
