# SPDX-License-Identifier: BSD-3-Clause
"""The 3D scene of viser's page."""

from collections.abc import Callable
from itertools import combinations, product
from typing import Any

import numpy as np
import viser

from isaaclab_pc.viewer.scene_frame import CameraView, Poses, SceneFrame, SceneLayout, label_text
from isaaclab_pc.viewer.scene_pictures import colors_by_height, depth_picture

LAYERS = ("cloud", "bodies", "cameras", "crop box", "gripper", "goal", "labels")
"""Layers that can be shown and hidden."""

_BODY_OPACITY = 0.55
"""Points lie on the bodies' surfaces: opaque bodies would hide half of them."""

_GRIPPER: dict[str, Any] = {"axes_length": 0.1, "axes_radius": 0.004}
_GOAL: dict[str, Any] = {"radius": 0.02, "color": (0, 190, 90)}
_CAMERA: dict[str, Any] = {"scale": 0.18, "thickness": 0.005, "color": (60, 60, 70), "format": "png"}
_CROP: dict[str, Any] = {"colors": (255, 160, 0), "thickness": 0.004}
_MARK: dict[str, Any] = {"radius": 0.09, "color": (225, 30, 30), "opacity": 0.5}
"""The ball around a fault is larger than a link of an arm."""

_LABEL_OFFSET = np.array([0.3, 0.0, 0.95])
"""Position of an environment's label from its origin [m]."""


class ViserScene:
    """Draws frames into a server's scene."""

    def __init__(self, server: viser.ViserServer, layout: SceneLayout) -> None:
        """Empty the scene, and look at the environments."""
        self._scene = server.scene
        self._layout = layout
        self._crop: np.ndarray | None = None
        """The twelve edges of the crop's box, shape (12, 2, 3)."""
        if layout.crop is not None:
            corners = combinations(np.array(list(product(*layout.crop.T)), np.float32), 2)
            self._crop = np.array([(a, b) for a, b in corners if (a != b).sum() == 1])
        self.handles: dict[str, Any] = {}
        """Nodes of the scene, by name."""
        self._scene.reset()
        self._scene.set_up_direction("+z")
        self.layers = {layer: self._scene.add_frame(f"/{layer}", show_axes=False) for layer in LAYERS}
        """Parents of the nodes, by layer."""

        reach = 1.3 + np.ptp(layout.origins, axis=0).max()
        look_at = layout.origins.mean(axis=0) + np.array([0.5, 0.3, 0.1])
        server.initial_camera.look_at = look_at
        server.initial_camera.position = look_at + np.array([0.5, -0.65, 0.45]) * reach

    def draw(self, frame: SceneFrame, point_size: float) -> None:
        """Draw a frame in the place of the last one; ``point_size`` is the width of a point [m]."""
        self._draw_bodies(frame)
        for env in range(self._layout.num_envs):
            self._draw_cloud(frame, env, point_size)
            self._place(f"/gripper/{env}", frame.gripper[env], self._scene.add_frame, **_GRIPPER)
            if frame.goal is not None:
                self._place(f"/goal/{env}", _at(frame.goal[env]), self._scene.add_icosphere, **_GOAL)
            for camera in frame.cameras:
                self._draw_camera(camera, env)
            self._draw_label(f"/labels/{env}", self._layout.origins[env] + _LABEL_OFFSET, label_text(frame, env))
        if frame.mark is not None:
            position, text = frame.mark
            self._place("/labels/mark", _at(position), self._scene.add_icosphere, **_MARK)
            self._draw_label("/labels/mark_text", position, text)

    def _draw_bodies(self, frame: SceneFrame) -> None:
        for part, poses in zip(self._layout.parts, frame.part_poses, strict=True):
            name = f"/bodies/{part.name}"
            positions, wxyz = poses[:, :3], np.roll(poses[:, 3:], 1, axis=1)
            if name not in self.handles:
                look: dict[str, Any] = {"batched_colors": part.color, "opacity": _BODY_OPACITY, "lod": "off"}
                mesh = (part.vertices, part.triangles)
                self.handles[name] = self._scene.add_batched_meshes_simple(name, *mesh, wxyz, positions, **look)
            self.handles[name].batched_positions = positions
            self.handles[name].batched_wxyzs = wxyz

    def _draw_cloud(self, frame: SceneFrame, env: int, point_size: float) -> None:
        if frame.cloud is None or frame.crop_poses is None:
            return
        name = f"/cloud/{env}"
        # Relative to the environment's origin: a browser gets them as float16.
        origin = self._layout.origins[env]
        points = frame.cloud[env] - origin
        colors = colors_by_height(points[:, 2])
        if name not in self.handles:
            self.handles[name] = self._scene.add_point_cloud(
                name, points, colors, point_shape="circle", point_shading="flat", position=origin
            )
        cloud = self.handles[name]
        cloud.points = points
        cloud.colors = colors
        cloud.point_size = point_size
        self._place(
            f"/crop box/{env}", frame.crop_poses[env], self._scene.add_line_segments, points=self._crop, **_CROP
        )

    def _draw_camera(self, camera: CameraView, env: int) -> None:
        name = f"/cameras/{camera.name}/{env}"
        height, width = camera.depth.shape[1:]
        fov = float(2.0 * np.arctan(height / (2.0 * camera.intrinsics[env, 1, 1])))
        shape = {"fov": fov, "aspect": width / height}
        self._place(name, camera.poses[env], self._scene.add_camera_frustum, **shape, **_CAMERA)
        self.handles[name].image = depth_picture(camera.depth[env])

    def _draw_label(self, name: str, position: np.ndarray, text: str) -> None:
        self._place(name, _at(position), self._scene.add_label, text="", anchor="bottom-center")
        self.handles[name].text = text

    def _place(self, name: str, pose: Poses, add: Callable[..., Any], **look: Any) -> None:
        """Move a node to its present pose; add it to the scene if it is new."""
        if name not in self.handles:
            self.handles[name] = add(name, **look)
        self.handles[name].position = pose[:3]
        self.handles[name].wxyz = np.roll(pose[3:], 1)


def _at(position: np.ndarray) -> Poses:
    return np.concatenate([position, [0.0, 0.0, 0.0, 1.0]])
