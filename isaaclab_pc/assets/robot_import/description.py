# SPDX-License-Identifier: BSD-3-Clause
"""Robot description files, as Newton reads them: links that fixed joints connect are one link."""

from __future__ import annotations

import math
import os
import warnings
import xml.etree.ElementTree as ET
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import mujoco
import newton
import numpy as np
import trimesh
import warp
from scipy.spatial.transform import Rotation

from isaaclab_pc.errors import ConfigError, describe_error

Array = np.ndarray

# MuJoCo has no type stubs for its specification.
_MUJOCO: Any = mujoco

_NO_LIMIT = 1e5
"""Position or effort from which a limit means that there is none."""


class Shape(NamedTuple):
    """A shape of a link, in its frame [m]; convex where it collides."""

    mesh: trimesh.Trimesh
    collides: bool
    is_visual: bool
    color: Any


@dataclass
class Joint:
    """A joint that turns or slides along ``axis`` [rad or m]; frames are (4, 4), efforts that are unknown 0."""

    name: str
    parent: int
    child: int
    slides: bool
    axis: Array
    in_parent: Array
    to_child: Array
    lower: float
    upper: float
    effort: float
    velocity: float

    def pose(self, position: float) -> Array:
        """Return the child's frame in the parent's, (4, 4)."""
        motion = np.eye(4)
        if self.slides:
            motion[:3, 3] = position * self.axis
        else:
            motion[:3, :3] = Rotation.from_rotvec(position * self.axis).as_matrix()
        return self.in_parent @ motion @ self.to_child


@dataclass
class Description:
    """A tree of links, the first one of which is the base, and its joints, parents first."""

    builder: Any
    """Newton's ``ModelBuilder``; the links are its bodies."""
    names: list[str]
    joints: list[Joint]
    merged: dict[str, int]
    """Index of the link that each link of the file has become."""

    def base_pose(self) -> Array:
        """Return the frame of the base at the origin, (4, 4)."""
        pose = _matrix(self.builder.joint_X_p[0])
        pose[:3, 3] = 0.0
        return pose

    def path(self, first: int, last: int) -> list[Joint]:
        """Return the joints from a link to one that it carries."""
        above = {joint.child: joint for joint in self.joints}
        path: list[Joint] = []
        while last != first:
            path.insert(0, above[last])
            last = above[last].parent
        return path

    def shapes(self, link: int) -> list[Shape]:
        """Return a link's shapes; its visuals collide where nothing else does."""
        shapes = [shape for one in self.builder.body_shapes[link] if (shape := _shape(self.builder, one)) is not None]
        if not any(shape.collides for shape in shapes):
            shapes += [Shape(one.mesh.convex_hull, True, False, one.color) for one in shapes]
        return shapes


def read_description(file: Path, gripper: Path | None = None, flange: str | None = None) -> Description:
    """Read a URDF, MJCF or USD file, with the ``gripper`` of another one on its link ``flange``.

    Raises:
        ConfigError: A file, or a mesh or joint in it, is missing or cannot be used; the message names it.
    """
    warp.config.log_level = warp.LOG_WARNING
    builder: Any = newton.ModelBuilder()
    with warnings.catch_warnings():
        # Of textures, and links without mass.
        warnings.simplefilter("ignore")
        efforts_and_speeds = _add(builder, file)
        if gripper is not None:
            names = [_short(label) for label in builder.body_label]
            if flange not in names:
                ends = [name for index, name in enumerate(names) if index not in builder.joint_parent]
                raise ConfigError(f"flange={flange}: expected the link that carries the gripper, as {', '.join(ends)}.")
            efforts_and_speeds |= _add(builder, gripper, parent_body=names.index(flange))
        names = [_short(label) for label in builder.body_label]
        result = builder.collapse_fixed_joints(joints_to_keep=[0])
    if builder.joint_type[0] != newton.JointType.FIXED or min(builder.joint_parent[1:], default=-1) < 0:
        raise ConfigError(f"{file}: expected one arm with a fixed base, and no loose bodies.")
    merged, remap = result["body_merged_parent"], result["body_remap"]
    merged = {name: remap.get(merged.get(index, index), -1) for index, name in enumerate(names)}
    joints = _joints(file, builder, efforts_and_speeds)
    return Description(builder, [_short(label) for label in builder.body_label], joints, merged)


def _short(label: str) -> str:
    return label.rsplit("/", 1)[-1]


def _matrix(transform: Any) -> Array:
    """Return Newton's position and quaternion (x, y, z, w) as a matrix, (4, 4)."""
    matrix = np.eye(4)
    matrix[:3, :3] = Rotation.from_quat(np.array(transform, dtype=float)[3:]).as_matrix()
    matrix[:3, 3] = np.array(transform, dtype=float)[:3]
    return matrix


def _add(builder: Any, file: Path, **options: Any) -> dict[str, tuple[float, float]]:
    """Add a file to Newton's builder; returns what its readers leave out: joints' efforts and speeds, 0 if unknown."""
    suffix = file.suffix.lower()
    if not file.is_file() or suffix not in (".urdf", ".xml", ".usd", ".usda", ".usdc"):
        raise ConfigError(f"{file}: expected a file .urdf (xacro makes one of .xacro), .xml (MJCF) or .usd.")
    try:
        if suffix == ".urdf":
            return _add_urdf(builder, file, options)
        (builder.add_mjcf if suffix == ".xml" else builder.add_usd)(str(file), **options)
        return _efforts_of_actuators(file) if suffix == ".xml" else {}
    except ConfigError:
        raise
    except Exception as error:
        # Each reader, and each of those of meshes, has errors of its own.
        raise ConfigError(f"{file} cannot be read: {describe_error(error)}") from error


def _efforts_of_actuators(file: Path) -> dict[str, tuple[float, float]]:
    """Return the efforts of joints that MJCF tells by their actuators."""
    # MuJoCo frees a specification that only its parts are left of.
    spec = _MUJOCO.MjSpec.from_file(str(file))
    efforts: dict[str, float] = defaultdict(float)
    for actuator in spec.actuators:
        # The control of a motor is its force; that of the others, which have a bias, is a position or a speed.
        is_motor = actuator.biastype == _MUJOCO.mjtBias.mjBIAS_NONE
        force = max(map(abs, actuator.forcerange)) or is_motor * actuator.gainprm[0] * max(map(abs, actuator.ctrlrange))
        if actuator.trntype == _MUJOCO.mjtTrn.mjTRN_JOINT:
            efforts[actuator.target] = max(efforts[actuator.target], float(abs(force * actuator.gear[0])))
    return {name: (effort, 0.0) for name, effort in efforts.items()}


def _add_urdf(builder: Any, file: Path, options: dict[str, Any]) -> dict[str, tuple[float, float]]:
    root = ET.parse(file).getroot()
    for mesh in root.iter("mesh"):
        mesh.set("filename", str(_mesh_file(file, mesh.get("filename", ""))))
    builder.add_urdf(ET.tostring(root, encoding="unicode"), **options)
    limits = {joint.get("name", ""): joint.find("limit") for joint in root.findall("joint")}
    return {name: (0.0, float(limit.get("velocity", 0))) for name, limit in limits.items() if limit is not None}


def _mesh_file(urdf: Path, name: str) -> Path:
    """Find a mesh beside the URDF; that of a package below any folder above it, or in ``ROS_PACKAGE_PATH``."""
    scheme, _, path = name.rpartition("://")
    folders, paths = [urdf.parent], [path]
    if scheme == "package":
        folders = [*urdf.resolve().parents, *map(Path, os.environ.get("ROS_PACKAGE_PATH", ".").split(":"))]
        paths = [path, path.partition("/")[2]]
    for found in (folder / path for path in paths for folder in folders):
        if path and found.is_file():
            return found.resolve()
    raise ConfigError(f"{urdf}: its mesh {name} is not there; ROS_PACKAGE_PATH may name the folder of its package.")


def _shape(builder: Any, index: int) -> Shape | None:
    """Return a shape; None for what is no solid, such as a site."""
    flags, kinds = builder.shape_flags[index], newton.GeoType
    collides, is_visual = bool(flags & newton.ShapeFlags.COLLIDE_SHAPES), bool(flags & newton.ShapeFlags.VISIBLE)
    x, y, z = (float(value) for value in builder.shape_scale[index])
    match kinds(0 if flags & newton.ShapeFlags.SITE else builder.shape_type[index]):
        case kinds.BOX:
            mesh = trimesh.primitives.Box((2 * x, 2 * y, 2 * z))
        case kinds.SPHERE:
            mesh = trimesh.creation.icosphere(1, x)
        case kinds.CAPSULE:
            mesh = trimesh.creation.capsule(2 * y, x, count=(8, 8))
        case kinds.CYLINDER:
            mesh = trimesh.creation.cylinder(x, 2 * y, sections=24)
        case kinds.MESH:
            source = builder.shape_source[index]
            source = source.compute_convex_hull() if collides else source
            mesh = trimesh.Trimesh(np.asarray(source.vertices) * (x, y, z), np.reshape(source.indices, (-1, 3)))
        case _:
            return None
    mesh.apply_transform(_matrix(builder.shape_transform[index]))
    return Shape(mesh, collides, is_visual, builder.shape_color[index])


def _joints(file: Path, builder: Any, efforts_and_speeds: dict[str, tuple[float, float]]) -> list[Joint]:
    names = [_short(label) for label in builder.joint_label]
    joints: list[Joint] = []
    for index in range(1, builder.joint_count):
        name, child = names[index], builder.joint_child[index]
        if any(joint.child == child for joint in joints):
            # It closes a loop, and the tree is whole without it.
            continue
        slides, turns = builder.joint_dof_dim[index]
        if slides + turns != 1:
            raise ConfigError(f"{file}: joint {name} moves in {slides + turns} ways; give hinges and slides only.")
        dof = builder.joint_qd_start[index]
        lower, upper = builder.joint_limit_lower[dof], builder.joint_limit_upper[dof]
        if lower >= upper or max(-lower, upper) > _NO_LIMIT:
            if slides:
                raise ConfigError(f"{file}: joint {name} slides without limits: give it a lower and an upper one.")
            lower, upper = -2 * math.pi, 2 * math.pi
        effort, speed = efforts_and_speeds.get(name, (0.0, 0.0))
        limit = builder.joint_effort_limit[dof]
        limits = lower, upper, limit if limit < _NO_LIMIT else effort, speed or (0.2 if slides else math.pi)
        frames = _matrix(builder.joint_X_p[index]), np.linalg.inv(_matrix(builder.joint_X_c[index]))
        axis, parent = np.array(builder.joint_axis[dof], dtype=float), builder.joint_parent[index]
        joints.append(Joint(name, parent, child, bool(slides), axis, *frames, *limits))
    return joints
