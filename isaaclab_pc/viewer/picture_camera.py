# SPDX-License-Identifier: BSD-3-Clause
"""A colour camera for people beside a task's cameras: Newton's Warp renderer needs neither a display nor a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
from isaaclab.utils import replace
from isaaclab_newton.renderers import NewtonWarpRendererCfg

from isaaclab_pc.envs import depth_camera_cfg
from isaaclab_pc.viewer.scene_pictures import PictureView

__all__ = ["add_picture_camera", "default_view", "read_pictures"]

_NAME = "picture"


def default_view(cfg: Any) -> PictureView:
    """Return the view of a task's visualizers, as wide as the workspace.

    Args:
        cfg: Of a :class:`~isaaclab_pc.envs.PointCloudEnv`.
    """
    visualizer = cfg.sim.default_visualizer_cfg
    return PictureView(eye=visualizer.eye, target=visualizer.lookat, width=384, height=288, fov_deg=30.0)


def add_picture_camera(cfg: Any, view: PictureView) -> None:
    """Add the camera to the scene of an environment that is not yet built.

    Args:
        cfg: Of a :class:`~isaaclab_pc.envs.PointCloudEnv`; it is changed.
        view: The camera's view.
    """
    camera = depth_camera_cfg(view.eye, view.target, width=view.width, height=view.height, fov_deg=view.fov_deg)
    picture = replace(
        camera,
        prim_path="{ENV_REGEX_NS}/PictureCamera",
        data_types=["rgb"],
        renderer_cfg=NewtonWarpRendererCfg(enable_shadows=True),
    )
    setattr(cfg.scene, _NAME, picture)


def read_pictures(env: Any) -> np.ndarray:
    """Return the present pictures of all environments, shape (N, H, W, 3), uint8.

    Args:
        env: The unwrapped environment, with the camera.
    """
    return env.scene[_NAME].data.output["rgb"].torch[..., :3].cpu().numpy()
