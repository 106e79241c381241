# SPDX-License-Identifier: BSD-3-Clause
"""Every task in one picture: the scene while the expert acts, the depth image, the policy's cloud, and a thumbnail's.

Run ``python benchmarks/task_sheet.py --out docs/images/tasks.png``. It also prints how many distinct points each cloud
has at that moment.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import matplotlib as mpl
import numpy as np
import torch
from isaaclab.app import launch_simulation
from isaaclab.utils import replace
from isaaclab_tasks.utils import load_cfg_from_registry
from matplotlib.ticker import MultipleLocator
from PIL import Image

from isaaclab_pc.cli.task_names import our_tasks
from isaaclab_pc.physics import apply_physics
from isaaclab_pc.settings import PhysicsSettings
from isaaclab_pc.viewer.scene_pictures import PictureView, add_picture_camera, read_pictures

mpl.use("Agg")
import matplotlib.pyplot as plt

Vector = tuple[float, float, float]
WIDTH = 576
HEIGHT = 336
FOV_DEG = 52.0
SEED = 3
THUMBNAIL = (64, 48, 128)
"""Columns, rows and points of a cloud that is rendered cheaply, with a narrower field of view."""
THUMBNAIL_APERTURE = 2.0 * float(np.tan(np.radians(45.0) / 2.0))
"""Of its camera, in focal lengths."""
FAR = 1.8
"""Depth from which everything has one colour, so that the scale is left for the table and what is on it [m]."""


@dataclass(frozen=True, kw_only=True)
class View:
    """When and from where a task is shown."""

    time: float
    """Time in the episode [s]."""

    eye: Vector = (1.2, 0.65, 0.65)
    """Where the scene and the cloud are looked at from, in the environment frame [m]."""

    target: Vector = (0.42, 0.0, 0.2)
    """What is in the middle of the image of the scene, in the environment frame [m]."""


VIEWS = {
    "reach": View(time=0.27),
    "push": View(time=0.9, target=(0.47, 0.0, 0.13)),
    "lift": View(time=2.0),
    "lift_any": View(time=2.4, target=(0.45, 0.0, 0.18)),
    "stack": View(time=2.1),
    "peg_insert": View(time=2.6, eye=(1.15, -0.6, 0.6), target=(0.46, 0.05, 0.17)),
    "open_drawer": View(time=1.0, eye=(0.1, 0.9, 0.55), target=(0.5, 0.0, 0.17)),
    "turn_valve": View(time=1.4),
}


@dataclass(frozen=True)
class Shot:
    """What is seen of one environment."""

    scene: torch.Tensor
    """Image of the scene, (H, W, 3), uint8."""

    depth: torch.Tensor
    """Image of the task's camera [m], (H', W'); 0 where nothing is."""

    points: torch.Tensor
    """The policy's cloud in the environment frame [m], (K, 3), with repetitions where it has fewer points."""

    thumbnail: torch.Tensor
    """The cloud of a thumbnail, (K', 3)."""

    tool: torch.Tensor
    """Tool centre in the environment frame [m], (3,)."""

    goal: torch.Tensor | None
    """Goal in the environment frame [m], (3,), where the policy is told it as numbers."""


def capture(task_id: str, view: View) -> Shot:
    """Run a task's expert up to the view's time and look at it."""
    cfg: Any = load_cfg_from_registry(task_id, "env_cfg_entry_point")
    cfg.scene.num_envs = 1
    cfg.sim.device = "cpu"
    cfg.seed = SEED
    cfg.scene.points.frame = "env"
    cfg.scene.points.dtype = "float32"

    add_sensors(cfg.scene)
    add_picture_camera(cfg, PictureView(eye=view.eye, target=view.target, width=WIDTH, height=HEIGHT, fov_deg=FOV_DEG))
    apply_physics(cfg, PhysicsSettings())

    with launch_simulation(cfg, {"device": "cpu", "headless": True}):
        env: Any = gym.make(task_id, cfg=cfg).unwrapped
        policy = env.expert()
        points = env.reset(seed=SEED)[0]["points"]
        for _ in range(round(view.time / env.step_dt)):
            points = env.step(policy())[0]["points"]
        shot = Shot(
            scene=torch.as_tensor(read_pictures(env)[0]).clone(),
            depth=env.scene["sheet_camera"].data.output["depth"].torch[0, ..., 0].clone(),
            points=points[0, :, :3],
            thumbnail=env.scene["thumbnail"].data.points.torch[0, :, :3].clone(),
            tool=env.tool_pos[0].clone(),
            goal=env._goal()[0].clone() if env._task_proprioception().shape[1] > 0 else None,
        )
        env.close()
    return shot


def add_sensors(scene: Any) -> None:
    """Add the camera of the image, and a thumbnail's cloud; changes the config."""
    path = "{ENV_REGEX_NS}/SheetCamera"
    scene.sheet_camera = replace(scene.camera, prim_path=path, data_types=["depth"])
    width, height, num_points = THUMBNAIL
    names = [f"thumbnail_{name}" for name in scene.points.cameras]
    for name, own in zip(names, scene.points.cameras, strict=True):
        camera = getattr(scene, own)
        spawn = replace(camera.spawn, horizontal_aperture=camera.spawn.focal_length * THUMBNAIL_APERTURE)
        path = f"{camera.prim_path}Thumbnail"
        small = replace(camera, prim_path=path, width=width, height=height, spawn=spawn, data_types=[])
        setattr(scene, name, small)
    scene.thumbnail = replace(
        scene.points,
        cameras=names,
        num_points=num_points,
        source="rays",
        features=(),
        prim_path="{ENV_REGEX_NS}/Thumbnail",
    )


def draw(rows: dict[str, Shot], path: Path) -> None:
    """Write the sheet: a row for each task, with the scene, the depth image and both clouds."""
    figure = plt.figure(figsize=(21, 3.6 * len(rows) + 0.4))
    margins = {"left": 0.005, "right": 0.98, "bottom": 0.035, "top": 0.985}
    grid = figure.add_gridspec(len(rows), 4, width_ratios=(5.4, 5.0, 5.0, 5.0), wspace=0.03, hspace=0.16, **margins)
    for index, (task, shot) in enumerate(rows.items()):
        scene = figure.add_subplot(grid[index, 0])
        scene.imshow(shot.scene)
        scene.set_title(task, fontsize=20, fontweight="bold", loc="left")

        depth = figure.add_subplot(grid[index, 1])
        picture = depth.imshow(shot.depth.where(shot.depth > 0, torch.nan), cmap="viridis_r", vmax=FAR)
        depth.set_title(f"depth, {shot.depth.shape[1]} x {shot.depth.shape[0]} px [m]", fontsize=14)
        figure.colorbar(picture, ax=depth, shrink=0.85, extend="max", pad=0.02)
        for axes in (scene, depth):
            axes.set(xticks=[], yticks=[])

        cloud: Any = figure.add_subplot(grid[index, 2], projection="3d")
        draw_cloud(cloud, shot, shot.points, "policy's cloud", VIEWS[task])
        small: Any = figure.add_subplot(grid[index, 3], projection="3d")
        draw_cloud(small, shot, shot.thumbnail, f"of {THUMBNAIL[0]} x {THUMBNAIL[1]} px", VIEWS[task])
        scene.set_anchor("W")
    # The last task has a goal that is given as numbers, and so both entries.
    figure.legend(*cloud.get_legend_handles_labels(), loc="lower right", ncols=2, fontsize=14, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)

    # With a palette the file has a quarter of the size.
    picture = Image.open(path).convert("RGB")
    picture.quantize(method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(path, optimize=True)


def draw_cloud(axes: Any, shot: Shot, points: torch.Tensor, name: str, view: View) -> None:
    """Draw a cloud as seen from where the image of the scene was taken, with what the policy is told beside it."""
    distinct = points.unique(dim=0)
    axes.computed_zorder = False
    axes.scatter(*distinct.T, c=distinct[:, 2], s=20 if len(distinct) < 150 else 9, cmap="viridis", depthshade=False)
    axes.scatter(*shot.tool, marker="+", color="black", s=120, label="tool centre", zorder=3)
    shown = torch.cat([distinct, shot.tool[None]])
    if shot.goal is not None:
        axes.scatter(*shot.goal, marker="x", color="red", s=80, label="goal, given as numbers", zorder=3)
        shown = torch.cat([shown, shot.goal[None]])
    axes.set_title(f"{name}: {len(distinct)} of {len(points)} points distinct [m]", fontsize=14)

    lower = shown.amin(dim=0)
    upper = shown.amax(dim=0)
    middle = (lower + upper) / 2
    half = (0.55 * (upper - lower)).clamp(min=0.1)
    # The table is the floor of the picture, unless all points are high above it.
    middle[2] = torch.maximum(middle[2], half[2])
    for name, center, reach in zip("xyz", middle.tolist(), half.tolist(), strict=True):
        axes.set(**{f"{name}lim": (center - reach, center + reach), f"{name}label": name})
        getattr(axes, f"{name}axis").set_major_locator(MultipleLocator(0.1))
    # The same scale along all axes.
    axes.set_box_aspect(half.tolist(), zoom=1.05)
    x, y, z = np.subtract(view.eye, view.target)
    axes.view_init(elev=np.degrees(np.arctan2(z, np.hypot(x, y))), azim=np.degrees(np.arctan2(y, x)))


def main() -> None:
    """Draw the sheet and print the clouds' sizes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/images/tasks.png"))
    args = parser.parse_args()
    ids = our_tasks()
    rows = {task: capture(ids[task], view) for task, view in VIEWS.items()}
    for task, shot in rows.items():
        for name, points in (("cloud", shot.points), ("thumbnail", shot.thumbnail)):
            print(f"{task}, {name}: {len(points.unique(dim=0))} distinct points of {len(points)}")
    draw(rows, args.out)


if __name__ == "__main__":
    main()
