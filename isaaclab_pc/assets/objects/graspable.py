# SPDX-License-Identifier: BSD-3-Clause
"""An object of convex parts: its mass, how it comes to rest on a table, and how it is grasped there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import trimesh
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation
from trimesh.poses import compute_stable_poses

from isaaclab_pc.assets.objects import DENSITY
from isaaclab_pc.assets.objects.grasping import Floats, Grasps, spread, top_down_grasps
from isaaclab_pc.errors import ConfigError

MASSES = (0.03, 0.25)
"""Smallest and largest mass [kg]."""

_MOST_POSES = 8
_GRASPS_OF_POSE = 48
_FEWEST_GRASPS = 3
"""Grasps without which a resting pose is left out."""
_RARE = 0.02
"""Chance below which a resting pose is left out."""
_SAMPLES = 2500
"""Points of the surface that grasps are found with."""


@dataclass(frozen=True)
class Graspable:
    """A rigid object in a frame with its centre of mass as the origin."""

    family: str
    vertices: NDArray[np.float32]
    """Corners of all parts [m], (V, 3)."""
    faces: NDArray[np.int32]
    """Triangles of all parts, (F, 3)."""
    part_ends: NDArray[np.int32]
    """Where the vertices and the faces of each part end, (P, 2)."""
    mass: float
    """[kg]"""
    inertia: Floats
    """About the centre of mass [kg m^2], (3, 3)."""
    rest_quat: Floats
    """Orientations (x, y, z, w) in which it rests on a table, (R, 4)."""
    rest_height: Floats
    """Height of the origin above the table there [m], (R,)."""
    rest_chance: Floats
    """Chance of each when it is dropped, (R,); their sum is 1."""
    grasp_rest: NDArray[np.int32]
    """Resting pose of each grasp, (G,)."""
    grasp_position: Floats
    """Tool centre of each grasp [m], (G, 3)."""
    grasp_quat: Floats
    """Orientation of the tool (x, y, z, w), (G, 4)."""
    grasp_width: Floats
    """Distance of the fingers that hold it [m], (G,)."""
    grasp_cost: Floats
    """0 is the best that can be thought of, (G,)."""

    def parts(self) -> list[trimesh.Trimesh]:
        """Return the convex parts."""
        starts = np.concatenate([[[0, 0]], self.part_ends[:-1]])
        return [
            trimesh.Trimesh(self.vertices[v0:v1], self.faces[f0:f1], process=False)
            for (v0, f0), (v1, f1) in zip(starts, self.part_ends, strict=True)
        ]

    def save(self, path: Path) -> None:
        """Write it to an ``.npz`` file."""
        with path.open("wb") as file:
            np.savez_compressed(file, **vars(self))

    @classmethod
    def load(cls, path: Path) -> Graspable:
        """Read what :meth:`save` wrote.

        Raises:
            ConfigError: The file is none of these.
        """
        try:
            with np.load(path, allow_pickle=False) as data:
                values = {field.name: data[field.name] for field in fields(cls)}
        except (OSError, KeyError, ValueError) as error:
            raise ConfigError(f"{path} is not an object of this package ({error}): import it anew.") from None
        return cls(**{**values, "family": str(values["family"]), "mass": float(values["mass"])})


def make_graspable(
    family: str,
    parts: Sequence[Floats],
    *,
    seed: int = 0,
    density: float = DENSITY,
    masses: tuple[float, float] = MASSES,
) -> Graspable:
    """Make an object of convex parts.

    Args:
        family: Name of what is alike.
        parts: Points [m] that each part's convex hull goes around, (V, 3) each.
        seed: Of the points of the surface that grasps are found with.
        density: Mass per volume [kg/m^3].
        masses: Smallest and largest mass [kg].

    Returns:
        The object, with the resting poses in which it can be grasped.

    Raises:
        ConfigError: It has no volume, or cannot be grasped in any resting pose.
    """
    hulls = [trimesh.convex.convex_hull(points) for points in parts]
    whole = trimesh.boolean.union(hulls, engine="manifold") if len(hulls) > 1 else hulls[0].copy()
    if not whole.volume > 1e-9:
        raise ConfigError(f"{family}: it has no volume.")
    center = whole.center_mass
    for mesh in (whole, *hulls):
        mesh.apply_translation(-center)

    points, face, *_ = trimesh.sample.sample_surface(whole, _SAMPLES, seed=seed)
    points = np.asarray(points)
    normals = whole.face_normals[face]
    turns, heights, chances = _resting(trimesh.convex.convex_hull(whole.vertices))
    rests = []
    grasps = []
    for turn, height, chance in zip(turns, heights, chances, strict=True):
        found = top_down_grasps(points, normals, turn)
        if len(found) >= _FEWEST_GRASPS:
            rests.append((turn.as_quat(), height, chance))
            grasps.append(spread(found, _GRASPS_OF_POSE))
    if not rests:
        size = " x ".join(f"{100 * edge:.1f}" for edge in whole.extents)
        raise ConfigError(f"{family}: {size} cm, and no grasp from above in any resting pose: the fingers open 8 cm.")

    quat, height, chance = map(np.array, zip(*rests, strict=True))
    mass = float(np.clip(density * whole.volume, *masses))
    return Graspable(
        family=family,
        vertices=np.concatenate([hull.vertices for hull in hulls]).astype(np.float32),
        faces=np.concatenate([hull.faces for hull in hulls]).astype(np.int32),
        part_ends=np.cumsum([(len(hull.vertices), len(hull.faces)) for hull in hulls], axis=0).astype(np.int32),
        mass=mass,
        inertia=whole.moment_inertia / whole.mass * mass,
        rest_quat=quat,
        rest_height=height,
        rest_chance=chance / chance.sum(),
        grasp_rest=np.repeat(np.arange(len(grasps)), [len(found) for found in grasps]).astype(np.int32),
        **{
            f"grasp_{name}": np.concatenate([getattr(found, name) for found in grasps])
            for name in Grasps.__dataclass_fields__
        },
    )


def _resting(hull: trimesh.Trimesh) -> tuple[list[Rotation], Floats, Floats]:
    """Return the likeliest resting poses: turns, heights of the centre of mass [m] and chances."""
    transforms, chances = compute_stable_poses(hull, center_mass=np.zeros(3))
    turns = [Rotation.from_matrix(transform[:3, :3]) for transform in transforms]
    heights = np.array([-turn.apply(hull.vertices)[:, 2].min() for turn in turns])

    # A round thing lies in dozens of poses that are one: two of them, so that two sides can be told apart.
    alike: dict[int, list[int]] = {}
    for index in np.argsort(-chances):
        first = next((first for first in alike if abs(heights[first] - heights[index]) < 0.0012), int(index))
        alike.setdefault(first, []).append(int(index))
    likely = [(chances[group].sum(), group[:2]) for group in alike.values() if chances[group].sum() > _RARE]
    kept = [(index, chance / len(group)) for chance, group in likely for index in group]
    kept = sorted(kept, key=lambda one: -one[1])[:_MOST_POSES]
    order = [index for index, _ in kept]
    return [turns[index] for index in order], heights[order], np.array([chance for _, chance in kept])
