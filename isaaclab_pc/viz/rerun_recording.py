# SPDX-License-Identifier: BSD-3-Clause
"""Writes what a viewer draws to a recording that ``rerun`` opens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import rerun as rr
import rerun.blueprint as rrb

from isaaclab_pc.viz.scene_frame import CameraView, Poses, SceneFrame, SceneLayout, fault_text

__all__ = ["RerunRecording"]

APPLICATION = "isaaclab_pc"
TIMELINE = "step"
TIME = "time"

POINT_RADIUS = 0.006
"""Of a cloud's points [m]."""

_AXES = 0.1
"""Length of a gripper's axes [m]."""

_CROP_COLOR = (255, 160, 0)
_GOAL_COLOR = (0, 190, 90)
_MARK_COLOR = (225, 30, 30)


class RerunRecording:
    """An ``.rrd`` file or a running viewer, with one entity tree ``env_<i>`` for each environment.

    ===========================  =======================================================
    ``bodies/<part>``            meshes of all environments, one for each place
    ``env_<i>/cloud``            points in the world [m]
    ``env_<i>/<camera>``         pinhole camera and its pose; ``/depth``: its image [m]
    ``env_<i>/crop``             box
    ``env_<i>/gripper``          axes of the tool centre
    ``env_<i>/goal``             point
    ``env_<i>/reward/<term>``    the summands, and ``total``
    ``env_<i>/action/<i>``       what the policy asked for
    ``env_<i>/success``          0 or 1; ``done`` likewise
    ``env_<i>/guard``            what the guard found, as a log
    ``mark``, ``watched/<name>`` what a replay found: the place, and values over the time
    ===========================  =======================================================
    """

    def __init__(self, target: Path | str, layout: SceneLayout, color: str = "height") -> None:
        """Begin a recording.

        Args:
            target: The file, of which an older one is replaced; or the address of a viewer, ``rerun+http://...``.
            layout: What does not change.
            color: Which of the layout's ways colours the points.
        """
        self._layout = layout
        self._color = color
        self._has_watched = False
        self._recording = rr.RecordingStream(APPLICATION)
        if isinstance(target, str):
            self._recording.connect_grpc(target, default_blueprint=_blueprint(layout, play_state="following"))
        else:
            self._recording.save(target, default_blueprint=_blueprint(layout))
        self._recording.log("/", rr.ViewCoordinates.RIGHT_HAND_Z_UP, static=True)
        for part in layout.parts:
            mesh = rr.Mesh3D(vertex_positions=part.vertices, triangle_indices=part.triangles, albedo_factor=part.color)
            self._recording.log(f"bodies/{part.name}", mesh, static=True)

    def write(self, frame: SceneFrame) -> None:
        """Add a frame."""
        record = self._recording
        record.set_time(TIMELINE, sequence=int(frame.step))
        record.set_time(TIME, duration=frame.step * self._layout.step_s)

        for part, poses in zip(self._layout.parts, frame.part_poses, strict=True):
            where = rr.InstancePoses3D(translations=poses[:, :3], quaternions=poses[:, 3:])
            record.log(f"bodies/{part.name}", where)
        for env in range(self._layout.num_envs):
            self._write_scene(frame, env)
            self._write_series(frame, env)
        if frame.mark is not None:
            where = frame.mark.position[None]
            record.log("mark", rr.Points3D(where, radii=0.05, colors=_MARK_COLOR, labels=[frame.mark.text]))
        if frame.watched and not self._has_watched:
            self._has_watched = True
            record.send_blueprint(_blueprint_of_replay(self._layout))
        for name, value in frame.watched.items():
            record.log(f"watched/{name}", rr.Scalars(value))

    def close(self) -> None:
        """Finish the file."""
        self._recording.flush()
        self._recording.disconnect()

    def _write_scene(self, frame: SceneFrame, env: int) -> None:
        record = self._recording
        root = f"env_{env}"
        record.log(f"{root}/gripper", *_frame_axes(frame.gripper[env]))
        if frame.goal is not None:
            record.log(f"{root}/goal", rr.Points3D(frame.goal[env : env + 1], radii=0.02, colors=_GOAL_COLOR))

        if frame.cloud is not None and frame.crop_poses is not None and self._layout.crop is not None:
            colors = frame.cloud_colors[self._color][env]
            record.log(f"{root}/cloud", rr.Points3D(frame.cloud[env], colors=colors, radii=POINT_RADIUS))
            lower, upper = self._layout.crop
            record.log(f"{root}/crop", _transform(frame.crop_poses[env]))
            box = rr.Boxes3D(mins=lower, sizes=upper - lower, colors=_CROP_COLOR)
            record.log(f"{root}/crop/box", box)

        for camera in frame.cameras:
            self._write_camera(f"{root}/{camera.name}", camera, env)

    def _write_camera(self, path: str, camera: CameraView, env: int) -> None:
        height, width = camera.depth.shape[1:]
        self._recording.log(path, _transform(camera.poses[env]))
        pinhole = rr.Pinhole(
            image_from_camera=camera.intrinsics[env], width=width, height=height, image_plane_distance=0.15
        )
        self._recording.log(path, pinhole)
        self._recording.log(f"{path}/depth", rr.DepthImage(camera.depth[env], meter=1.0))

    def _write_series(self, frame: SceneFrame, env: int) -> None:
        values: dict[str, float] = {}
        if frame.reward is not None:
            values["reward/total"] = frame.reward[env]
            values |= {f"reward/{name}": value[env] for name, value in frame.reward_terms.items()}
        if frame.actions is not None:
            values |= {f"action/{index}": value for index, value in enumerate(frame.actions[env])}
        for name, flags in (("success", frame.success), ("done", frame.done)):
            if flags is not None:
                values[name] = flags[env]
        for name, value in values.items():
            self._recording.log(f"env_{env}/{name}", rr.Scalars(float(value)))

        fault = fault_text(frame, env)
        if fault:
            self._recording.log(f"env_{env}/guard", rr.TextLog(f"environment {env}: {fault}", level="WARN"))


def _transform(pose: Poses) -> rr.Transform3D:
    return rr.Transform3D(translation=pose[:3], quaternion=rr.Quaternion(xyzw=pose[3:]))


def _frame_axes(pose: Poses) -> tuple[rr.Transform3D, rr.Arrows3D]:
    colors = [(220, 40, 40), (40, 170, 40), (50, 80, 230)]
    return _transform(pose), rr.Arrows3D(vectors=_AXES * np.eye(3), colors=colors)


def _blueprint(layout: SceneLayout, play_state: Literal["following"] | None = None) -> rrb.Blueprint:
    """Return the scene beside the curves of each environment, which are tabs."""
    tabs = [_environment_tab(f"env_{env}", layout.cameras) for env in range(layout.num_envs)]
    return rrb.Blueprint(
        rrb.Horizontal(_space(), rrb.Tabs(*tabs, name="environments"), column_shares=[3, 2]),
        rrb.TimePanel(timeline=TIMELINE, state="collapsed", play_state=play_state),
        collapse_panels=True,
    )


def _blueprint_of_replay(layout: SceneLayout) -> rrb.Blueprint:
    """Return the scene beside the values of what failed, over the time: a step of the environment has several."""
    watched = rrb.TimeSeriesView(name="what failed", origin="watched")
    return rrb.Blueprint(
        rrb.Horizontal(_space(), rrb.Vertical(watched, *_depth_views("env_0", layout.cameras)), column_shares=[3, 2]),
        rrb.TimePanel(timeline=TIME, state="expanded", play_state="following"),
        collapse_panels=True,
    )


def _space() -> rrb.Spatial3DView:
    # Depth is an image elsewhere; in space, rerun would draw it as a second cloud.
    return rrb.Spatial3DView(name="scene", origin="/", contents=["+ /**", "- /*/*/depth"])


def _depth_views(root: str, cameras: Sequence[str]) -> list[rrb.Spatial2DView]:
    return [
        rrb.Spatial2DView(name=f"depth, {camera}", origin=f"{root}/{camera}", contents=["$origin/depth"])
        for camera in cameras
    ]


def _environment_tab(root: str, cameras: Sequence[str]) -> rrb.Vertical:
    return rrb.Vertical(
        rrb.TimeSeriesView(name="reward", origin=f"{root}/reward"),
        rrb.TimeSeriesView(name="actions", origin=f"{root}/action"),
        rrb.TimeSeriesView(name="success and ends", contents=[f"{root}/success", f"{root}/done"]),
        rrb.Horizontal(*_depth_views(root, cameras), rrb.TextLogView(name="guard", origin=f"{root}/guard")),
        name=root,
    )
