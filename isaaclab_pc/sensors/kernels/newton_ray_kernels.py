# SPDX-License-Identifier: BSD-3-Clause
"""The door to Newton's Warp ray tracer: the only file that reaches below Newton's public names. Loads a simulator.

Newton's own camera casts one field of rays in all worlds. Its closest-hit function, called from a kernel of ours, takes
a ray of each environment's own. Written for Newton 1.6; :func:`check_ray_tracer` says what a later one has changed.
"""

from __future__ import annotations

import inspect
from typing import Any

import newton
import warp as wp
from newton._src.geometry import Gaussian
from newton._src.sensors.warp_raytrace import raytrace
from newton._src.sensors.warp_raytrace.types import MeshData

_MODEL_FIELDS = (
    "bvh_shapes",
    "bvh_shapes_group_roots",
    "bvh_shape_enabled",
    "bvh_shape_count_enabled",
    "bvh_shape_world_transforms",
    "shape_world",
    "shape_scale",
)
_CONTEXT_FIELDS = ("shape_render_type", "shape_source_ptr", "shape_mesh_data_ids", "mesh_data", "gaussians_data")
_HIT_ARGUMENTS = [
    "bvh_shapes_size",
    "bvh_shapes_id",
    "bvh_shapes_group_roots",
    "bvh_particles_size",
    "bvh_particles_id",
    "bvh_particles_group_roots",
    "world_index",
    "max_distance",
    "shape_enabled",
    "shape_types",
    "shape_sizes",
    "shape_transforms",
    "shape_source_ptr",
    "shape_mesh_data_ids",
    "mesh_data",
    "particles_position",
    "particles_radius",
    "topology_particle_mask",
    "triangle_mesh_id",
    "triangle_mesh_group_roots",
    "gaussians_data",
    "ray_origin_world",
    "ray_dir_world",
    "camera_forward",
]


@wp.struct
class Shapes:
    """The shapes of all worlds, which rays can hit, those that all worlds share among them."""

    tree: wp.uint64
    """Bounding volume hierarchy, with one group of leaves a world."""
    num_leaves: wp.int32
    roots: wp.array(dtype=wp.int32)
    """Root of each world's group, and last that of the shapes which all worlds share."""
    lowers: wp.array(dtype=wp.vec3f)
    """Smallest corner of each leaf's box in the world [m]."""
    uppers: wp.array(dtype=wp.vec3f)
    """Largest corner of each leaf's box in the world [m]."""
    of_leaf: wp.array(dtype=wp.uint32)
    """Shape of each leaf."""
    types: wp.array(dtype=wp.int32)
    scales: wp.array(dtype=wp.vec3f)
    poses: wp.array(dtype=wp.transformf)
    sources: wp.array(dtype=wp.uint64)
    mesh_ids: wp.array(dtype=wp.int32)
    meshes: wp.array(dtype=MeshData)
    gaussians: wp.array(dtype=Gaussian.Data)
    no_positions: wp.array(dtype=wp.vec3f)
    no_radii: wp.array(dtype=wp.float32)
    no_mask: wp.array(dtype=wp.bool)


def check_ray_tracer(sensor: Any) -> None:
    """Refuse a Newton with a ray tracer other than the one that this file was written for.

    Raises:
        RuntimeError: The message names what is missing and the setting that does without it.
    """
    advice = (
        f"Newton {newton.__version__} has another ray tracer than this package was written for (1.6): use "
        "points.source=image, or the tested versions of constraints.txt."
    )
    context = _context(sensor)
    if context is None:
        raise RuntimeError(f"{type(sensor).__name__} holds no RenderContext. {advice}")
    missing = [name for name in _MODEL_FIELDS if not hasattr(sensor.model, name)]
    missing += [name for name in _CONTEXT_FIELDS if not hasattr(context, name)]
    if missing:
        raise RuntimeError(f"Newton's ray tracer has no {', '.join(missing)}. {advice}")

    closest_hit = raytrace.create_closest_hit_depth_only_function(sensor.default_render_config, context.state)
    arguments = list(inspect.signature(closest_hit.func).parameters)
    if arguments != _HIT_ARGUMENTS:
        changed = sorted(set(arguments) ^ set(_HIT_ARGUMENTS)) or ["their order"]
        raise RuntimeError(f"The arguments of Newton's closest-hit function differ in {', '.join(changed)}. {advice}")


def shapes_of(sensor: Any) -> Shapes:
    """Return the shapes that a tiled camera's model holds; the arrays are the model's own, so it stays up to date."""
    model = sensor.model
    context = _context(sensor)
    shapes: Any = Shapes()
    shapes.tree = model.bvh_shapes.id
    shapes.num_leaves = model.bvh_shape_count_enabled
    shapes.roots = model.bvh_shapes_group_roots
    shapes.lowers = model.bvh_shapes.lowers
    shapes.uppers = model.bvh_shapes.uppers
    shapes.of_leaf = model.bvh_shape_enabled
    shapes.types = context.shape_render_type
    shapes.scales = model.shape_scale
    shapes.poses = model.bvh_shape_world_transforms
    shapes.sources = context.shape_source_ptr
    shapes.mesh_ids = context.shape_mesh_data_ids
    shapes.meshes = context.mesh_data
    if context.gaussians_data is not None:
        shapes.gaussians = context.gaussians_data
    return shapes


def make_cast(sensor: Any, with_normal: bool) -> wp.Function:
    """Return a Warp function that casts one ray as a ``SensorTiledCamera`` does; the hit's normal takes longer.

    ``cast(shapes, world, origin, direction, forward, far)`` is the closest hit of a ray in a world within ``far`` [m],
    with ``distance`` [m], ``shape_index``, :data:`NO_HIT` for a miss, and ``normal`` in the world.
    """
    create = raytrace.create_closest_hit_depth_only_function
    if with_normal:
        create = raytrace.create_closest_hit_function
    closest_hit = create(sensor.default_render_config, _context(sensor).state)

    @wp.func
    def cast(
        shapes: Shapes, world: wp.int32, origin: wp.vec3f, direction: wp.vec3f, forward: wp.vec3f, far: wp.float32
    ) -> raytrace.ClosestHit:
        return closest_hit(
            shapes.num_leaves,
            shapes.tree,
            shapes.roots,
            0,
            wp.uint64(0),
            shapes.roots,
            world,
            far,
            shapes.of_leaf,
            shapes.types,
            shapes.scales,
            shapes.poses,
            shapes.sources,
            shapes.mesh_ids,
            shapes.meshes,
            shapes.no_positions,
            shapes.no_radii,
            shapes.no_mask,
            wp.uint64(0),
            shapes.roots,
            shapes.gaussians,
            origin,
            direction,
            forward,
        )

    return cast


NO_HIT = raytrace.NO_HIT_SHAPE_ID
BOX = wp.constant(int(newton.GeoType.BOX))


def _context(sensor: Any) -> Any:
    return getattr(sensor, "_SensorTiledCamera__render_context", None)
