# SPDX-License-Identifier: BSD-3-Clause
"""Reads from a running environment what a viewer draws."""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import newton
import numpy as np
import torch
from isaaclab.scene_data import SceneDataFormat
from isaaclab_newton.physics import NewtonBackendCfg
from newton import GeoType, Mesh, ShapeFlags
from scipy.spatial.transform import Rotation

from isaaclab_pc.envs import PointCloudEnv
from isaaclab_pc.envs.observation_history import newest_frame
from isaaclab_pc.faults.replay_result import Reading
from isaaclab_pc.guards.causes import Cause
from isaaclab_pc.sensors.scene_cameras import depth_image, image_intrinsics
from isaaclab_pc.viewer.film_recorder import points_in_world
from isaaclab_pc.viewer.scene_frame import CameraView, Part, Poses, SceneFrame, SceneLayout

_LARGEST = 20.0
"""Largest half-width of a drawn box or plane [m]: a ground is larger."""


class SceneReader:
    """Reads frames (:mod:`isaaclab_pc.viewer.scene_frame`) from an environment after each reset and step."""

    def __init__(self, env: PointCloudEnv) -> None:
        """Read the layout of an unwrapped environment, with a cloud, a depth image or neither."""
        self._env = env
        self._steps = 0
        self._bodies = SceneBodies(env.sim)
        cloud = env.point_cloud
        # No others: an image that the policy does not see would be rendered for the viewer alone.
        names = cloud.cfg.cameras if cloud is not None else ("camera",) if env.camera is not None else ()
        self._cameras = {name: env.scene[name] for name in names}
        self.layout = SceneLayout(
            origins=_array(env.scene.env_origins),
            parts=self._bodies.parts,
            crop=None if cloud is None else np.array([cloud.cfg.crop_lower, cloud.cfg.crop_upper], np.float32),
            cameras=tuple(self._cameras),
            step_s=env.step_dt,
        )
        """Constants of the environment."""

    def after_reset(self, observations: Mapping[str, torch.Tensor]) -> SceneFrame:
        """Return the frame after ``env.reset``, which returned the observations."""
        return self._read(newest_frame(observations, self._env.cfg.history_length))

    def after_step(self, actions: torch.Tensor, result: tuple[Any, ...]) -> SceneFrame:
        """Return the frame after ``env.step``, which took the actions, (N, A), and returned the result.

        Environments that were done show the start of their next episode.
        """
        self._steps += 1
        env = self._env
        observations, reward, terminated, truncated, _ = result
        done = terminated | truncated
        return replace(
            self._read(newest_frame(observations, env.cfg.history_length)),
            actions=_array(actions),
            reward=_array(reward),
            reward_terms={name: _array(value) for name, value in env.reward_terms.items()},
            # A reset clears what was fulfilled; what held at an episode's end is kept.
            success=_array(torch.where(done, env.episode_success, env.episode_tracker.fulfilled)),
            done=_array(done),
        )

    def after_physics_step(self, step: float, worst: Reading | None, value: float) -> SceneFrame:
        """Return the frame between two steps of a replay.

        It marks the reading that was found to fail first, if any, which is ``value`` now.
        """
        observations = {} if self._env.point_cloud is None else {"points": self._env.observe_points()}
        frame = replace(self._read(observations), step=step)
        if worst is None:
            return frame
        text = f"{worst.name} {worst.quantity}: {value:.4g}, bound {worst.bound:g}"
        watched = {worst.quantity: value if math.isfinite(value) else math.nan, "bound": worst.bound}
        return replace(frame, watched=watched, mark=(self._position_of(worst, frame), text))

    def _position_of(self, reading: Reading, frame: SceneFrame) -> np.ndarray:
        """Return the position of a joint or body of the first environment [m], shape (3,); else of the gripper."""
        found = self._env.scene[reading.asset] if reading.asset else None
        if found is not None and reading.name in found.body_names:
            return _array(found.data.body_pos_w.torch[0, found.body_names.index(reading.name)])
        position = self._bodies.joint_position(reading.name)
        return frame.gripper[0, :3] if position is None else position

    def _read(self, observations: Mapping[str, torch.Tensor]) -> SceneFrame:
        env = self._env
        origins = env.scene.env_origins
        goal = env._goal()
        return SceneFrame(
            step=self._steps,
            part_poses=self._bodies.poses(),
            gripper=_poses(env.tool_pos + origins, env.tool_quat),
            cameras=tuple(_camera_view(name, camera) for name, camera in self._cameras.items()),
            goal=None if goal is None else _array(goal + origins),
            faults=tuple(Cause.labels(bits) for bits in env.guard.causes.tolist()),
            benched=_array(env.guard.benched),
            **({} if env.point_cloud is None else self._read_cloud(observations["points"])),
        )

    def _read_cloud(self, observed: torch.Tensor) -> dict[str, Any]:
        """Return the cloud's fields of a frame; ``observed`` is (N, K, 3 or more)."""
        cloud = self._env.point_cloud
        assert cloud is not None
        return {
            "cloud": _array(points_in_world(self._env, observed[..., :3])),
            "age": _array(cloud.age),
            "crop_poses": _poses(*cloud.frame_pose(cloud.cfg.crop_frame or cloud.cfg.frame)),
        }


def _camera_view(name: str, camera: Any) -> CameraView:
    depth = _array(depth_image(camera))
    return CameraView(
        name=name,
        poses=_poses(camera.data.pos_w.torch, camera.data.quat_w_ros.torch),
        intrinsics=_array(image_intrinsics(camera)),
        depth=np.where(np.isfinite(depth), depth, 0.0).astype(np.float32),
    )


def _poses(pos: torch.Tensor, quat: torch.Tensor | None) -> Poses:
    """Return poses, shape (N, 7); a quaternion of None stands for the world's axes."""
    if quat is None:
        quat = pos.new_tensor([0.0, 0.0, 0.0, 1.0]).expand(len(pos), 4)
    return _array(torch.cat([pos, quat], dim=1))


def _array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy().copy()


class SceneBodies:
    """Appearance and poses of the bodies of a simulation."""

    def __init__(self, simulation: Any) -> None:
        """Read the shapes of Isaac Lab's ``SimulationContext``, which has a scene."""
        cfg = NewtonBackendCfg(physics_cfg=simulation.cfg.physics, device=simulation.device)
        self._model = simulation.get_or_create_backend(cfg).model
        self._provider = simulation.get_scene_data_provider()
        self._mapping = self._provider.create_mapping(list(self._model.body_label))
        self._last = np.zeros((self._model.body_count, 7), np.float32)
        self._last[:, 6] = 1.0

        self._bodies = self._model.shape_body.numpy()
        self._offsets = self._model.shape_transform.numpy()
        self._shapes: list[list[int]] = []
        self.parts: tuple[Part, ...] = self._read_parts()
        """One for all shapes that look the same."""

    def poses(self) -> tuple[Poses, ...]:
        """Return the present poses of each part, each (B, 7); a body with a non-finite pose keeps its last one."""
        now = SceneDataFormat.Transform()
        self._provider.get_transforms(now, mapping=self._mapping, count=self._model.body_count)
        bodies = now.transforms.numpy()
        is_finite = np.isfinite(bodies).all(axis=1, keepdims=True)
        self._last = np.where(is_finite, bodies, self._last)

        # The last row is the world, to which a body of -1 belongs.
        with_world = np.vstack([self._last, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]])
        return tuple(_compose(with_world[self._bodies[shapes]], self._offsets[shapes]) for shapes in self._shapes)

    def joint_position(self, name: str) -> np.ndarray | None:
        """Return where a joint's child body of the first environment was in the last :meth:`poses`, [m], (3,)."""
        labels = [label.rpartition("/")[2] for label in self._model.joint_label]
        return self._last[self._model.joint_child.numpy()[labels.index(name)], :3] if name in labels else None

    def _read_parts(self) -> tuple[Part, ...]:
        """Group the drawn shapes by their appearance."""
        model = self._model
        types = model.shape_type.numpy()
        scales = model.shape_scale.numpy().round(6)
        colors = (255.0 * model.shape_color.numpy()).round().clip(0, 255).astype(np.uint8)

        groups: defaultdict[Any, list[int]] = defaultdict(list)
        for shape in self._drawn():
            source = model.shape_source[shape]
            look = (int(types[shape]), tuple(scales[shape].tolist()), id(source), tuple(colors[shape].tolist()))
            groups[look].append(shape)

        parts = []
        for (kind, scale, _, color), shapes in groups.items():
            mesh = _mesh(GeoType(kind), scale, model.shape_source[shapes[0]])
            if mesh is not None:
                vertices = np.asarray(mesh.vertices, np.float32)
                triangles = np.asarray(mesh.indices, np.int32).reshape(-1, 3)
                parts.append(Part(f"part_{len(parts)}", vertices, triangles, color))
                self._shapes.append(shapes)
        return tuple(parts)

    def _drawn(self) -> list[int]:
        """Return the visible shapes, and the colliders of bodies that have none."""
        flags = self._model.shape_flags.numpy()
        is_site = (flags & int(ShapeFlags.SITE)) != 0
        is_visible = ((flags & int(ShapeFlags.VISIBLE)) != 0) & ~is_site
        is_seen_body = (self._bodies >= 0) & np.isin(self._bodies, self._bodies[is_visible])
        return (is_visible | (~is_site & ~is_seen_body)).nonzero()[0].tolist()


def _mesh(kind: GeoType, scale: tuple[float, ...], source: Any) -> newton.Mesh | None:
    """Return the mesh of a shape; None for a kind that is not drawn, such as a height field."""
    x, y, z = scale
    match kind:
        case GeoType.BOX:
            sides = (min(x, _LARGEST), min(y, _LARGEST), z)
            return Mesh.create_box(*sides, duplicate_vertices=True, compute_inertia=False)
        case GeoType.SPHERE:
            return Mesh.create_ellipsoid(x, x, x, compute_inertia=False)
        case GeoType.ELLIPSOID:
            return Mesh.create_ellipsoid(x, y, z, compute_inertia=False)
        case GeoType.CAPSULE:
            return Mesh.create_capsule(x, y, up_axis=newton.Axis.Z, compute_inertia=False)
        case GeoType.CYLINDER:
            return Mesh.create_cylinder(x, y, up_axis=newton.Axis.Z, compute_inertia=False)
        case GeoType.CONE:
            return Mesh.create_cone(x, y, up_axis=newton.Axis.Z, compute_inertia=False)
        case GeoType.PLANE:
            return Mesh.create_plane(x or _LARGEST, y or _LARGEST, compute_inertia=False)
        case GeoType.MESH | GeoType.CONVEX_MESH:
            return Mesh(np.asarray(source.vertices) * np.asarray(scale), source.indices, compute_inertia=False)
    return None


def _compose(outer: Poses, inner: Poses) -> Poses:
    """Return the inner poses, given in the frames of the outer ones, as poses in the world, each (B, 7)."""
    turn = Rotation.from_quat(outer[:, 3:])
    position = outer[:, :3] + turn.apply(inner[:, :3])
    quat = (turn * Rotation.from_quat(inner[:, 3:])).as_quat()
    return np.hstack([position, quat]).astype(np.float32)
