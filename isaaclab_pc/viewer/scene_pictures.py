# SPDX-License-Identifier: BSD-3-Clause
"""Pictures for people: a colour camera beside a task's cameras, clouds and depth images."""

from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np

from isaaclab_pc.report.drawing import HEIGHT_SPAN

_NAME = "picture"
"""Name of the colour camera in a scene."""

_UPSCALE = 4
"""Edge of a depth pixel in its picture [px]: a browser would blur a smaller picture."""


@dataclass(frozen=True, kw_only=True)
class PictureView:
    """Camera of a picture, in the environment's frame, in which z is up."""

    eye: tuple[float, float, float]
    """Position of the camera [m]."""
    target: tuple[float, float, float]
    """Point in the middle of the picture [m]."""
    width: int
    """Columns [px]."""
    height: int
    """Rows [px]."""
    fov_deg: float
    """Horizontal field of view [deg]."""


def default_view(cfg: Any) -> PictureView:
    """Return the view of the visualizers of a ``PointCloudEnvCfg``, as wide as the workspace."""
    visualizer = cfg.sim.default_visualizer_cfg
    return PictureView(eye=visualizer.eye, target=visualizer.lookat, width=384, height=288, fov_deg=30.0)


def add_picture_camera(cfg: Any, view: PictureView) -> None:
    """Add a colour camera to a ``PointCloudEnvCfg``; Newton's Warp renderer needs neither a display nor a GPU."""
    from isaaclab.utils import replace
    from isaaclab_newton.renderers import NewtonWarpRendererCfg

    from isaaclab_pc.envs import depth_camera_cfg

    camera = depth_camera_cfg(view.eye, view.target, width=view.width, height=view.height, fov_deg=view.fov_deg)
    picture = replace(
        camera,
        prim_path="{ENV_REGEX_NS}/PictureCamera",
        data_types=["rgb"],
        renderer_cfg=NewtonWarpRendererCfg(enable_shadows=True),
    )
    setattr(cfg.scene, _NAME, picture)


def read_pictures(env: Any) -> np.ndarray:
    """Return the colour camera's present pictures of an unwrapped environment, shape (N, H, W, 3), uint8."""
    return env.scene[_NAME].data.output["rgb"].torch[..., :3].cpu().numpy()


def draw_points(points: np.ndarray, colors: np.ndarray, scene: np.ndarray, view: PictureView, size: int) -> np.ndarray:
    """Draw points into a faded picture of the scene by its camera, the nearest on top.

    Points (K, 3) are in the environment's frame [m], their colours (K, 3), uint8, and their edges ``size`` px long.
    Takes and returns pictures (H, W, 3), uint8.
    """
    forward = np.subtract(view.target, view.eye)
    forward /= np.linalg.norm(forward)
    right = np.cross(forward, (0.0, 0.0, 1.0))
    right /= np.linalg.norm(right)
    down = np.cross(forward, right)

    offset = points - np.asarray(view.eye)
    depth = offset @ forward
    order = np.argsort(-depth)
    order = order[depth[order] > 0.0]
    focal = view.width / 2.0 / np.tan(np.radians(view.fov_deg) / 2.0)
    columns = np.floor(view.width / 2.0 + focal * (offset @ right)[order] / depth[order]).astype(int)
    rows = np.floor(view.height / 2.0 + focal * (offset @ down)[order] / depth[order]).astype(int)

    # The farthest point comes first: of several values for a pixel, NumPy keeps the last one.
    pixel_rows, pixel_columns = np.divmod(np.arange(size * size), size)
    all_rows = (rows[:, None] + pixel_rows).ravel()
    all_columns = (columns[:, None] + pixel_columns).ravel()
    is_inside = (all_rows >= 0) & (all_rows < view.height) & (all_columns >= 0) & (all_columns < view.width)
    image = (scene // 5 + 204).astype(np.uint8)
    image[all_rows[is_inside], all_columns[is_inside]] = colors[order].repeat(size * size, axis=0)[is_inside]
    return image


def colors_by_height(heights: np.ndarray) -> np.ndarray:
    """Return the colours of heights [m] above an environment's origin, shape (..., 3), uint8."""
    share = np.nan_to_num(heights / HEIGHT_SPAN).clip(0.0, 1.0)
    return (255.0 * mpl.colormaps["turbo"](share)[..., :3]).astype(np.uint8)


def depth_picture(depth: np.ndarray) -> np.ndarray:
    """Colour depth [m], shape (H, W), from its nearest to its farthest pixel; returns (4 H, 4 W, 3), uint8.

    Pixels that hit nothing, 0, are black.
    """
    hit = depth > 0.0
    near, far = (float(depth[hit].min()), float(depth[hit].max())) if hit.any() else (0.0, 1.0)
    share = ((depth - near) / max(far - near, 1e-6)).clip(0.0, 1.0)
    picture = (255.0 * mpl.colormaps["viridis_r"](share)[..., :3]).astype(np.uint8)
    picture[~hit] = 0
    return picture.repeat(_UPSCALE, axis=0).repeat(_UPSCALE, axis=1)
