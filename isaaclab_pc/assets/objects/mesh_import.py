# SPDX-License-Identifier: BSD-3-Clause
"""Objects from mesh files of anybody: checked, decomposed into convex parts, with resting poses and grasps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import trimesh
from trimesh.grouping import group_rows

from isaaclab_pc.assets.objects import DENSITY
from isaaclab_pc.assets.objects.graspable import Graspable, make_graspable
from isaaclab_pc.errors import ConfigError

SUFFIXES = (".stl", ".obj", ".ply", ".glb")

_MOST_TRIANGLES = 5_000
"""Triangles above which a mesh is made coarser before it is decomposed."""
_MOST_PARTS = 16
_SIZES = (0.005, 0.5)
"""Longest edge of the bounding box that an object of a table has [m]."""


def mesh_files(path: Path) -> list[Path]:
    """Return the mesh files of a folder, or the file itself.

    Raises:
        ConfigError: There is none.
    """
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix.lower() in SUFFIXES)
    else:
        files = [path] if path.is_file() and path.suffix.lower() in SUFFIXES else []
    if not files:
        raise ConfigError(f"{path}: no mesh is there; expected a file, or a folder of files, {', '.join(SUFFIXES)}.")
    return files


def import_mesh(file: Path, *, scale: float = 1.0, density: float = DENSITY) -> Graspable:
    """Make an object of a mesh file.

    Holes are filled.

    Args:
        file: A mesh file in metres, after ``scale``.
        scale: Factor of all lengths, 0.001 for millimetres.
        density: Mass per volume [kg/m^3].

    Returns:
        The object.

    Raises:
        ConfigError: The file is no mesh, of another unit, without volume, with holes that cannot be filled, or the
            object cannot be grasped.
    """
    mesh = _read(file, scale)
    return make_graspable(file.stem, _convex_parts(file, mesh), density=density, masses=(1e-3, 100.0))


def _read(file: Path, scale: float) -> trimesh.Trimesh:
    try:
        mesh = trimesh.load_mesh(file)
    except Exception as error:
        # Each of trimesh's readers has errors of its own.
        raise ConfigError(f"{file} cannot be read as a mesh: {error}") from None
    if len(mesh.faces) == 0:
        raise ConfigError(f"{file} holds no triangles.")
    if not np.isfinite(mesh.vertices).all():
        raise ConfigError(f"{file} holds corners that are not finite.")

    mesh.apply_scale(scale)
    size = float(mesh.extents.max())
    if not _SIZES[0] <= size <= _SIZES[1]:
        guess = next((f for f in (0.001, 0.01, 0.0254, 1000.0) if _SIZES[0] <= size * f <= _SIZES[1]), None)
        advice = f" Its unit may be another: scale={scale * guess:g}." if guess else ""
        raise ConfigError(
            f"{file} is {size:.4g} m long; an object of a table has {_SIZES[0]} to {_SIZES[1]} m.{advice}"
        )
    if len(mesh.faces) > _MOST_TRIANGLES:
        mesh = mesh.simplify_quadric_decimation(face_count=_MOST_TRIANGLES)
    return mesh


def _convex_parts(file: Path, mesh: trimesh.Trimesh) -> list[np.ndarray]:
    if np.linalg.matrix_rank(mesh.vertices - mesh.vertices.mean(axis=0), tol=1e-5) < 3:
        raise ConfigError(f"{file} is flat: it has no volume.")
    if not mesh.is_watertight:
        _repair(mesh)
    if len(group_rows(mesh.edges_sorted, require_count=1)) > 0:
        raise ConfigError(f"{file} has holes that cannot be filled: close them in a mesh editor.")
    if mesh.is_watertight and mesh.volume > 0.97 * mesh.convex_hull.volume:
        return [np.asarray(mesh.convex_hull.vertices)]

    # Surfaces inside the object are no harm to it.
    import coacd

    coacd.set_log_level("error")
    parts = coacd.run_coacd(coacd.Mesh(mesh.vertices, mesh.faces), threshold=0.05, max_convex_hull=_MOST_PARTS)
    return [np.asarray(vertices) for vertices, _ in parts]


def _repair(mesh: trimesh.Trimesh) -> None:
    mesh.update_faces(mesh.unique_faces())
    mesh.update_faces(mesh.nondegenerate_faces())
    mesh.merge_vertices(digits_vertex=5)
    trimesh.repair.fill_holes(mesh, use_fan=True)
    mesh.fix_normals()
