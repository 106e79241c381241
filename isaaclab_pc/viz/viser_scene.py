# SPDX-License-Identifier: BSD-3-Clause
"""The scene on a page of viser's: bodies, clouds, cameras, crop boxes, grippers, goals and labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import viser

from isaaclab_pc.viz.scene_frame import CameraView, Poses, SceneFrame, SceneLayout, label_text
from isaaclab_pc.viz.scene_pictures import depth_picture

__all__ = ["LAYERS", "ViserScene"]

LAYERS = ("cloud", "bodies", "cameras", "crop box", "gripper", "goal", "labels")
"""Layers that can be shown and hidden."""

BODY_OPACITY = 0.55
"""Points lie on the bodies' surfaces: those would hide half of them."""

_CROP_COLOR = (255, 160, 0)
_GOAL_COLOR = (0, 190, 90)
_CAMERA_COLOR = (60, 60, 70)
_MARK_COLOR = (225, 30, 30)
_MARK_RADIUS = 0.09
"""Of the ball around what failed: larger than a link of an arm [m]."""
_LABEL_HEIGHT = 0.95
"""Of an environment's label above its origin [m]."""


class ViserScene:
    """Draws frames into a server's scene."""

    def __init__(self, server: viser.ViserServer, layout: SceneLayout) -> None:
        """Empty the scene, and put in what does not change.

        Args:
            server: The server.
            layout: What does not change.
        """
        self._scene = server.scene
        self._layout = layout
        self.handles: dict[str, Any] = {}
        """Nodes added to the scene, by name."""
        self._scene.reset()
        self._scene.set_up_direction("+z")
        self.layers = {layer: self._scene.add_frame(f"/{layer}", show_axes=False) for layer in LAYERS}

        center = layout.origins.mean(axis=0)
        reach = 1.3 + np.ptp(layout.origins, axis=0).max()
        look_at = center + np.array([0.5, 0.3, 0.1])
        server.initial_camera.look_at = look_at
        server.initial_camera.position = look_at + np.array([0.5, -0.65, 0.45]) * reach

    def show_layer(self, layer: str, visible: bool) -> None:
        """Show or hide one of :data:`LAYERS`."""
        self.layers[layer].visible = visible

    def draw(self, frame: SceneFrame, color: str, point_size: float) -> None:
        """Draw a frame in the place of the last one.

        Args:
            frame: What is to see.
            color: Which of the layout's ways colours the points.
            point_size: Width of a point [m].
        """
        self._draw_bodies(frame)
        for env in range(self._layout.num_envs):
            self._draw_cloud(frame, env, color, point_size)
            self._place(f"/gripper/{env}", frame.gripper[env], self._add_axes)
            if frame.goal is not None:
                self._place(f"/goal/{env}", _at(frame.goal[env]), self._add_goal)
            for camera in frame.cameras:
                self._draw_camera(camera, env)
            self._draw_label(frame, env)
        self._draw_mark(frame)

    def _draw_bodies(self, frame: SceneFrame) -> None:
        for part, poses in zip(self._layout.parts, frame.part_poses, strict=True):
            name = f"/bodies/{part.name}"
            wxyz = np.roll(poses[:, 3:], 1, axis=1)
            if name in self.handles:
                handle = self.handles[name]
                handle.batched_positions = poses[:, :3]
                handle.batched_wxyzs = wxyz
            else:
                self.handles[name] = self._scene.add_batched_meshes_simple(
                    name,
                    part.vertices,
                    part.triangles,
                    wxyz,
                    poses[:, :3],
                    batched_colors=part.color,
                    opacity=BODY_OPACITY,
                    lod="off",
                )

    def _draw_cloud(self, frame: SceneFrame, env: int, color: str, point_size: float) -> None:
        if frame.cloud is None or frame.crop_poses is None:
            return
        name = f"/cloud/{env}"
        # Relative to the environment's origin: a browser gets them as float16.
        origin = self._layout.origins[env]
        points = frame.cloud[env] - origin
        colors = frame.cloud_colors[color][env]
        if name not in self.handles:
            self.handles[name] = self._scene.add_point_cloud(
                name, points, colors, point_shape="circle", point_shading="flat", position=origin
            )
        cloud = self.handles[name]
        cloud.points = points
        cloud.colors = colors
        cloud.point_size = point_size
        self._place(f"/crop box/{env}", frame.crop_poses[env], self._add_crop)

    def _draw_camera(self, camera: CameraView, env: int) -> None:
        name = f"/cameras/{camera.name}/{env}"
        height, width = camera.depth.shape[1:]
        picture = depth_picture(camera.depth[env])

        def add(name: str) -> Any:
            fov = 2.0 * np.arctan(height / (2.0 * camera.intrinsics[env, 1, 1]))
            return self._scene.add_camera_frustum(
                name,
                float(fov),
                width / height,
                scale=0.18,
                thickness=0.005,
                color=_CAMERA_COLOR,
                image=picture,
                format="png",
            )

        self._place(name, camera.poses[env], add)
        self.handles[name].image = picture

    def _draw_label(self, frame: SceneFrame, env: int) -> None:
        name = f"/labels/{env}"
        text = label_text(frame, env)
        if name not in self.handles:
            position = self._layout.origins[env] + np.array([0.3, 0.0, _LABEL_HEIGHT])
            self.handles[name] = self._scene.add_label(name, text, position=position, anchor="bottom-center")
        elif self.handles[name].text != text:
            self.handles[name].text = text

    def _draw_mark(self, frame: SceneFrame) -> None:
        if frame.mark is None:
            return
        self._place("/labels/mark", _at(frame.mark.position), self._add_mark)
        self._place("/labels/mark_text", _at(frame.mark.position), lambda name: self._scene.add_label(name, ""))
        if self.handles["/labels/mark_text"].text != frame.mark.text:
            self.handles["/labels/mark_text"].text = frame.mark.text

    def _place(self, name: str, pose: Poses, add: Any) -> None:
        """Put something where it is now, and add it to the scene if it is new."""
        if name not in self.handles:
            self.handles[name] = add(name)
        self.handles[name].position = pose[:3]
        self.handles[name].wxyz = np.roll(pose[3:], 1)

    def _add_axes(self, name: str) -> Any:
        return self._scene.add_frame(name, axes_length=0.1, axes_radius=0.004)

    def _add_goal(self, name: str) -> Any:
        return self._scene.add_icosphere(name, radius=0.02, color=_GOAL_COLOR)

    def _add_mark(self, name: str) -> Any:
        return self._scene.add_icosphere(name, radius=_MARK_RADIUS, color=_MARK_COLOR, opacity=0.5)

    def _add_crop(self, name: str) -> Any:
        assert self._layout.crop is not None
        return self._scene.add_line_segments(name, _edges(self._layout.crop), _CROP_COLOR, thickness=0.004)


def _edges(corners: np.ndarray) -> np.ndarray:
    """Return the twelve edges of a box with the given lowest and highest corner, shape (12, 2, 3)."""
    unit = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)])
    edges = [(a, b) for a in range(8) for b in range(a) if np.abs(unit[a] - unit[b]).sum() == 1]
    points = corners[0] + unit * (corners[1] - corners[0])
    return points[np.array(edges)].astype(np.float32)


def _at(position: np.ndarray) -> Poses:
    return np.concatenate([position, [0.0, 0.0, 0.0, 1.0]])
