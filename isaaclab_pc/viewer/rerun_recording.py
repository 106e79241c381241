# SPDX-License-Identifier: BSD-3-Clause
"""Writes frames to a recording that ``rerun`` opens."""

from pathlib import Path

import numpy as np
import rerun as rr
import rerun.blueprint as rrb

from isaaclab_pc.viewer.scene_frame import Poses, SceneFrame, SceneLayout, curves, fault_text

TIMELINE = "step"

_POINT_RADIUS = 0.006
_AXES_LENGTH = 0.1
_AXES_COLORS = [(220, 40, 40), (40, 170, 40), (50, 80, 230)]
_CROP_COLOR = (255, 160, 0)
_GOAL_COLOR = (0, 190, 90)


class RerunRecording:
    """An ``.rrd`` file with one entity tree ``env_<i>`` for each environment.

    ==========================  =======================================================
    ``bodies/<part>``           meshes, one instance for each body of any environment
    ``env_<i>/cloud``           points in the world [m]
    ``env_<i>/<camera>``        pinhole camera and its pose; ``/depth``: its image [m]
    ``env_<i>/crop``            box
    ``env_<i>/gripper``         axes of the tool centre
    ``env_<i>/goal``            point
    ``env_<i>/reward/<term>``   the summands, and ``total``
    ``env_<i>/action/<i>``      the policy's action
    ``env_<i>/success``         0 or 1; ``done`` likewise
    ``env_<i>/guard``           the guard's findings, as a log
    ==========================  =======================================================
    """

    def __init__(self, path: Path, layout: SceneLayout, color: str = "height") -> None:
        """Begin a recording in the place of an older file; ``color`` is one of the layout's ways to colour points."""
        self._layout = layout
        self._color = color
        self._recording = rr.RecordingStream("isaaclab_pc")
        self._recording.save(path, default_blueprint=_blueprint(layout))
        self._recording.log("/", rr.ViewCoordinates.RIGHT_HAND_Z_UP, static=True)
        for part in layout.parts:
            mesh = rr.Mesh3D(vertex_positions=part.vertices, triangle_indices=part.triangles, albedo_factor=part.color)
            self._recording.log(f"bodies/{part.name}", mesh, static=True)

    def write(self, frame: SceneFrame) -> None:
        """Add a frame."""
        self._recording.set_time(TIMELINE, sequence=int(frame.step))
        self._recording.set_time("time", duration=frame.step * self._layout.step_s)
        for part, poses in zip(self._layout.parts, frame.part_poses, strict=True):
            instances = rr.InstancePoses3D(translations=poses[:, :3], quaternions=poses[:, 3:])
            self._recording.log(f"bodies/{part.name}", instances)
        for env in range(self._layout.num_envs):
            self._write_scene(frame, env)
            self._write_series(frame, env)

    def close(self) -> None:
        """Finish the file."""
        self._recording.flush()
        self._recording.disconnect()

    def _write_scene(self, frame: SceneFrame, env: int) -> None:
        log = self._recording.log
        root = f"env_{env}"
        axes = rr.Arrows3D(vectors=_AXES_LENGTH * np.eye(3), colors=_AXES_COLORS)
        log(f"{root}/gripper", _transform(frame.gripper[env]), axes)
        if frame.goal is not None:
            log(f"{root}/goal", rr.Points3D(frame.goal[env : env + 1], radii=0.02, colors=_GOAL_COLOR))

        if frame.cloud is not None and frame.crop_poses is not None and self._layout.crop is not None:
            colors = frame.cloud_colors[self._color][env]
            log(f"{root}/cloud", rr.Points3D(frame.cloud[env], colors=colors, radii=_POINT_RADIUS))
            lower, upper = self._layout.crop
            log(f"{root}/crop", _transform(frame.crop_poses[env]))
            log(f"{root}/crop/box", rr.Boxes3D(mins=lower, sizes=upper - lower, colors=_CROP_COLOR))

        for camera in frame.cameras:
            height, width = camera.depth.shape[1:]
            intrinsics = camera.intrinsics[env]
            pinhole = rr.Pinhole(image_from_camera=intrinsics, width=width, height=height, image_plane_distance=0.15)
            log(f"{root}/{camera.name}", _transform(camera.poses[env]), pinhole)
            log(f"{root}/{camera.name}/depth", rr.DepthImage(camera.depth[env], meter=1.0))

    def _write_series(self, frame: SceneFrame, env: int) -> None:
        groups = curves(frame, env).items()
        values = {f"{group}/{name}": value for group, named in groups for name, value in named.items()}
        if frame.success is not None:
            values["success"] = frame.success[env]
        if frame.done is not None:
            values["done"] = frame.done[env]
        for name, value in values.items():
            self._recording.log(f"env_{env}/{name}", rr.Scalars(float(value)))

        if fault := fault_text(frame, env):
            self._recording.log(f"env_{env}/guard", rr.TextLog(f"environment {env}: {fault}", level="WARN"))


def _transform(pose: Poses) -> rr.Transform3D:
    return rr.Transform3D(translation=pose[:3], quaternion=rr.Quaternion(xyzw=pose[3:]))


def _blueprint(layout: SceneLayout) -> rrb.Blueprint:
    """Return the scene beside one tab of curves and images for each environment."""
    # In space, rerun would draw the depth image as a second cloud.
    scene = rrb.Spatial3DView(name="scene", origin="/", contents=["+ /**", "- /*/*/depth"])
    tabs = [_environment_tab(f"env_{env}", layout.cameras) for env in range(layout.num_envs)]
    return rrb.Blueprint(
        rrb.Horizontal(scene, rrb.Tabs(*tabs, name="environments"), column_shares=[3, 2]),
        rrb.TimePanel(timeline=TIMELINE, state="collapsed"),
        collapse_panels=True,
    )


def _environment_tab(root: str, cameras: tuple[str, ...]) -> rrb.Vertical:
    depth = [
        rrb.Spatial2DView(name=f"depth, {camera}", origin=f"{root}/{camera}", contents=["$origin/depth"])
        for camera in cameras
    ]
    return rrb.Vertical(
        rrb.TimeSeriesView(name="reward", origin=f"{root}/reward"),
        rrb.TimeSeriesView(name="actions", origin=f"{root}/action"),
        rrb.TimeSeriesView(name="success and ends", contents=[f"{root}/success", f"{root}/done"]),
        rrb.Horizontal(*depth, rrb.TextLogView(name="guard", origin=f"{root}/guard")),
        name=root,
    )
