# SPDX-License-Identifier: BSD-3-Clause
"""The bodies of a scene as triangle meshes, and where they are: read from the Newton model that Isaac Lab keeps of it.

The depth cameras render the same model, on every physics backend.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import newton
import numpy as np
from isaaclab.scene_data import SceneDataFormat
from isaaclab_newton.physics import NewtonBackendCfg
from newton import GeoType, Mesh, ShapeFlags
from scipy.spatial.transform import Rotation

from isaaclab_pc.viz.scene_frame import Part, Poses

__all__ = ["SceneBodies"]

_SEGMENTS = 24
"""Edges of a circle."""

_LARGEST = 20.0
"""Length beyond which a box is a ground, which is drawn no larger [m]."""


class SceneBodies:
    """Appearance and poses of the bodies of a simulation."""

    def __init__(self, simulation: Any) -> None:
        """Read the shapes.

        Args:
            simulation: Isaac Lab's ``SimulationContext``, with a scene.
        """
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
        """Return where each part is drawn now, each (B, 7); a body with a non-finite pose stays where it was."""
        now = SceneDataFormat.Transform()
        self._provider.get_transforms(now, mapping=self._mapping, count=self._model.body_count)
        bodies = now.transforms.numpy()
        is_finite = np.isfinite(bodies).all(axis=1, keepdims=True)
        self._last = np.where(is_finite, bodies, self._last)

        # The last row is the world, to which a body of -1 belongs.
        with_world = np.vstack([self._last, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]])
        return tuple(_compose(with_world[self._bodies[shapes]], self._offsets[shapes]) for shapes in self._shapes)

    def joint_position(self, name: str) -> np.ndarray | None:
        """Return where the body that a joint of the first environment moves was in the last :meth:`poses`.

        Args:
            name: The joint.

        Returns:
            The position in the world [m], shape (3,); None where the scene has no such joint.
        """
        labels = [label.rpartition("/")[2] for label in self._model.joint_label]
        return self._last[self._model.joint_child.numpy()[labels.index(name)], :3] if name in labels else None

    def _read_parts(self) -> tuple[Part, ...]:
        """Group the shapes that are drawn by what they look like."""
        model = self._model
        types = model.shape_type.numpy()
        scales = model.shape_scale.numpy()
        colors = (255.0 * model.shape_color.numpy()).round().clip(0, 255).astype(np.uint8)

        groups: defaultdict[Any, list[int]] = defaultdict(list)
        for shape in self._drawn():
            source = model.shape_source[shape]
            look = (
                int(types[shape]),
                tuple(scales[shape].round(6).tolist()),
                id(source),
                tuple(colors[shape].tolist()),
            )
            groups[look].append(shape)

        parts = []
        for (kind, scale, _, color), shapes in groups.items():
            mesh = _mesh(GeoType(kind), scale, model.shape_source[shapes[0]])
            if mesh is not None:
                name = f"part_{len(parts)}"
                vertices = np.asarray(mesh.vertices, np.float32)
                triangles = np.asarray(mesh.indices, np.int32).reshape(-1, 3)
                parts.append(Part(name, vertices, triangles, color))
                self._shapes.append(shapes)
        return tuple(parts)

    def _drawn(self) -> list[int]:
        """Return the shapes to draw: those that are meant to be seen, or of a body without such, what collides."""
        flags = self._model.shape_flags.numpy()
        is_site = (flags & int(ShapeFlags.SITE)) != 0
        is_visible = ((flags & int(ShapeFlags.VISIBLE)) != 0) & ~is_site
        seen_bodies = {int(body) for body in self._bodies[is_visible] if body >= 0}

        def is_drawn(shape: int) -> bool:
            return bool(is_visible[shape]) or (not is_site[shape] and int(self._bodies[shape]) not in seen_bodies)

        return [shape for shape in range(self._model.shape_count) if is_drawn(shape)]


def _mesh(kind: GeoType, scale: tuple[float, ...], source: Any) -> newton.Mesh | None:
    """Return the mesh of a shape; None for a kind that is not drawn, such as a height field."""
    x, y, z = scale
    if kind == GeoType.BOX:
        x, y = min(x, _LARGEST), min(y, _LARGEST)
        return Mesh.create_box(x, y, z, duplicate_vertices=True, compute_inertia=False)
    if kind == GeoType.SPHERE:
        return Mesh.create_sphere(x, num_latitudes=_SEGMENTS, num_longitudes=_SEGMENTS, compute_inertia=False)
    if kind == GeoType.CAPSULE:
        return Mesh.create_capsule(x, y, up_axis=newton.Axis.Z, segments=_SEGMENTS, compute_inertia=False)
    if kind == GeoType.CYLINDER:
        return Mesh.create_cylinder(x, y, up_axis=newton.Axis.Z, segments=_SEGMENTS, compute_inertia=False)
    if kind == GeoType.CONE:
        return Mesh.create_cone(x, y, up_axis=newton.Axis.Z, segments=_SEGMENTS, compute_inertia=False)
    if kind == GeoType.ELLIPSOID:
        return Mesh.create_ellipsoid(x, y, z, num_latitudes=_SEGMENTS, num_longitudes=_SEGMENTS, compute_inertia=False)
    if kind == GeoType.PLANE:
        return Mesh.create_plane(x or _LARGEST, y or _LARGEST, compute_inertia=False)
    if kind in (GeoType.MESH, GeoType.CONVEX_MESH):
        return Mesh(np.asarray(source.vertices) * np.asarray(scale), source.indices, compute_inertia=False)
    return None


def _compose(outer: Poses, inner: Poses) -> Poses:
    """Return poses that are given in the frames of other poses, each (B, 7)."""
    turn = Rotation.from_quat(outer[:, 3:])
    position = outer[:, :3] + turn.apply(inner[:, :3])
    quat = (turn * Rotation.from_quat(inner[:, 3:])).as_quat()
    return np.hstack([position, quat]).astype(np.float32)
