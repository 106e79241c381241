# SPDX-License-Identifier: BSD-3-Clause
"""The bodies of a scene as triangle meshes with poses: read from the Newton model that Isaac Lab keeps of it.

The depth cameras render the same model, on every physics backend.
"""

from collections import defaultdict
from typing import Any

import newton
import numpy as np
from isaaclab.scene_data import SceneDataFormat
from isaaclab_newton.physics import NewtonBackendCfg
from newton import GeoType, Mesh, ShapeFlags
from scipy.spatial.transform import Rotation

from isaaclab_pc.viewer.scene_frame import Part, Poses

_LARGEST = 20.0
"""Largest half-width of a drawn box or plane [m]: a ground is larger."""


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
