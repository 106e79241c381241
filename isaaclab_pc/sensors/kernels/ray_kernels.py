# SPDX-License-Identifier: BSD-3-Clause
"""The kernel that casts a cloud's rays: one block for each environment on CUDA, one thread for each on the CPU.

An environment's valid pixels lie in the rectangles that the boxes of its shapes, cut to the crop's box, take up in the
images. So pixels of these rectangles are drawn in a random order without repetition, and a ray is cast at each until
enough of them are valid. A pixel that several rectangles hold belongs to the first of them.
"""

from typing import Any

import warp as wp

from isaaclab_pc.sensors.kernels.newton_ray_kernels import NO_HIT
from isaaclab_pc.sensors.kernels.pixel_kernels import (
    BLOCK_LANES,
    Matrix,
    block_bits,
    lower_bits,
    moved,
    permuted,
    sync_block,
    unprojected,
)
from isaaclab_pc.sensors.kernels.ray_error_kernels import may_be_valid, may_mix
from isaaclab_pc.sensors.kernels.ray_place_kernels import Place, make_places, num_leaves_of
from isaaclab_pc.sensors.kernels.ray_scene_kernels import Scene, center_of_pixel, pinhole_of, world_ray
from isaaclab_pc.sensors.kernels.ray_tail_kernels import drawn_from_tail, steepest_ratio, tail_of
from isaaclab_pc.sensors.realism.kernels import (
    MAX_INCIDENCE,
    SHADOW_BASELINE,
    Errors,
    angle_ratio,
    draw_errors,
    looks_at,
    make_corrupt_pixel,
)
from isaaclab_pc.sensors.realism.kernels import Camera as ErrorCamera

ROUND = wp.constant(BLOCK_LANES)
"""Positions of the random order between two looks at how many rays were cast: on every device the same."""

UNLABELLED = wp.constant(1)
"""Isaac Lab's semantic id of what is no shape."""


@wp.struct
class Seen:
    """A pixel that was looked at."""

    is_cast: wp.int32
    """1 where rays were cast."""
    is_valid: wp.int32
    """1 where it has a point in the crop that no class removes; what follows is 0 otherwise."""
    point: wp.vec3f
    """In the crop's frame [m]."""
    pixel: wp.int32
    label: wp.int32
    normal: wp.vec3f
    """On the camera's side, in the world."""


@wp.func
def is_kept(shape: wp.uint32, scene: Scene) -> wp.bool:
    label = label_of(shape, scene)
    if label < scene.removed.shape[0]:
        return not scene.removed[label]
    return True


@wp.func
def label_of(shape: wp.uint32, scene: Scene) -> wp.int32:
    """Return the semantic id of a hit shape."""
    if shape < wp.uint32(scene.shape_ids.shape[0]):
        return wp.int32(scene.shape_ids[wp.int32(shape)])
    return UNLABELLED


def make_cast_clouds(cast: Any, with_normal: bool, with_errors: bool, in_blocks: bool) -> wp.Kernel:
    """Return the kernel around a function of :func:`~isaaclab_pc.sensors.kernels.newton_ray_kernels.make_cast`.

    ``with_errors``: the scene tells the cameras' errors, and ``cast`` tells normals. ``in_blocks``: a block of threads
    shares an environment, as on CUDA; otherwise it has one thread.
    """

    @wp.func
    def look(
        scene: Scene, env: wp.int32, row: wp.int32, column: wp.int32, camera: ErrorCamera
    ) -> tuple[wp.float32, wp.uint32]:
        """Return the true depth of a pixel [m], 0 for a miss and outside the image, and the shape that it shows."""
        if row < 0 or column < 0 or row >= camera.height or column >= camera.width:
            return 0.0, NO_HIT
        # Warp takes no field of a struct as an index.
        index = wp.int32(camera.index)
        ray = world_ray(row, column, scene.cameras[index], env)
        if wp.dot(ray.direction, ray.direction) <= 1.0e-12:
            return 0.0, NO_HIT
        hit = cast(scene.shapes, env, ray.origin, ray.direction, ray.forward, scene.cameras[index].reach)
        z = hit.distance * wp.dot(ray.direction, ray.forward)
        if hit.shape_index != NO_HIT and z > 0.0 and z < camera.far:
            return z, hit.shape_index
        return 0.0, NO_HIT

    @wp.func
    def read(scene: Scene, env: wp.int32, row: wp.int32, column: wp.int32, camera: ErrorCamera) -> wp.float32:
        z, _ = look(scene, env, row, column, camera)
        return z

    @wp.func
    def is_in_shadow(at: wp.vec3f, place: wp.vec3i, env: wp.int32, scene: Scene) -> wp.bool:
        """Tell whether something is between a point in the world and the camera's projector."""
        baseline = scene.parameters[env, place[0]][SHADOW_BASELINE]
        if baseline == 0.0:
            return False
        projector = wp.transform_point(scene.cameras[place[0]].poses[0, env], wp.vec3f(baseline, 0.0, 0.0))
        way = projector - at
        # From 1 mm off the surface, which would be met itself.
        start = at + wp.normalize(way) * 1.0e-3
        return cast(scene.shapes, env, start, wp.normalize(way), way, wp.length(way)).shape_index != NO_HIT

    corrupt_pixel = make_corrupt_pixel(read, may_mix)
    find_rectangles, place_at = make_places(with_errors)

    @wp.func
    def see(at: Place, env: wp.int32, scene: Scene, error_key: wp.int32) -> Seen:
        """Look at a camera's pixel in an environment."""
        place = at.pixel
        seen = Seen()
        camera = scene.cameras[place[0]]
        row = place[1]
        column = place[2]
        matrix = scene.matrices[env, place[0]]
        errors = Errors()
        if wp.static(with_errors):
            number = row * camera.width + column
            errors = draw_errors(error_key, number, scene.parameters[env, place[0]], scene.errors[place[0]])
            errors.flies = errors.flies or at.is_mixture
            if at.tail[0] > 0.0:
                leaf = scene.leaves[scene.leaf_starts[env] + at.leaf]
                pair = wp.int32(at.tail[1])
                ratio = steepest_ratio(leaf, place[0], env, scene)
                tail = tail_of(float(row), float(column), pair, ratio, leaf, place[0], env, scene)
                errors = drawn_from_tail(errors, tail, at.tail[0], wp.rand_init(error_key, ~number))
            elif not may_be_valid(place, errors, env, scene):
                return seen
            if errors.is_dropped:
                return seen

        ray = world_ray(row, column, camera, env)
        if wp.dot(ray.direction, ray.direction) <= 1.0e-12:
            return seen
        seen.is_cast = 1
        hit = cast(scene.shapes, env, ray.origin, ray.direction, ray.forward, camera.reach)
        z = hit.distance * wp.dot(ray.direction, ray.forward)
        shape = hit.shape_index
        if shape == NO_HIT:
            return seen
        if wp.static(with_errors):
            numbers = scene.parameters[env, place[0]]
            err = scene.errors[place[0]]
            k = pinhole_of(camera, env)
            theta = wp.acos(wp.min(wp.abs(wp.dot(wp.normalize(hit.normal), ray.forward)), 1.0))
            if not (z > 0.0 and z < camera.far and theta <= numbers[MAX_INCIDENCE]):
                return seen
            ratio = angle_ratio(theta)
            read_at = looks_at(row, column, ratio, k, numbers, err, errors)
            z_there = float(z)
            if read_at[0] != row or read_at[1] != column:
                z_there, shape = look(scene, env, read_at[0], read_at[1], err)
        # A pixel is of what it reads: one beside the robot that reads the robot is removed with it.
        if not is_kept(shape, scene):
            return seen
        if wp.static(with_errors):
            z = corrupt_pixel(scene, env, row, column, z, z_there, ratio, k, numbers, err, errors)
        # Written so that NaN is a miss.
        if not (z > camera.near and z < camera.far):
            return seen

        p = unprojected(z, center_of_pixel(row, column, camera), matrix)
        inside = p[0] >= scene.crop_lower[0] and p[1] >= scene.crop_lower[1] and p[2] >= scene.crop_lower[2]
        inside = inside and p[0] <= scene.crop_upper[0] and p[1] <= scene.crop_upper[1] and p[2] <= scene.crop_upper[2]
        if not inside:
            return seen
        # Warp evaluates both sides of `and`.
        if wp.static(with_errors):  # noqa: SIM102
            # The last, since few pixels get here.
            if is_in_shadow(ray.origin + ray.direction * hit.distance, place, env, scene):
                return seen

        seen.is_valid = 1
        seen.point = p
        seen.pixel = camera.first_pixel + row * camera.width + column
        seen.label = label_of(shape, scene)
        if wp.static(with_normal):
            seen.normal = hit.normal * wp.where(wp.dot(hit.normal, ray.direction) > 0.0, -1.0, 1.0)
        return seen

    @wp.kernel(enable_backward=False, grid_stride=False, module="unique")
    def cast_clouds(
        first_env: wp.int32,
        keys: wp.array(dtype=wp.int32),
        error_keys: wp.array(dtype=wp.int32),
        mask: wp.array(dtype=wp.bool),
        frame_pos: wp.array(dtype=wp.vec3f),
        frame_quat: wp.array(dtype=wp.quatf),
        to_output: wp.array(dtype=Matrix),
        scene: Scene,
        rectangles: wp.array2d(dtype=wp.vec4i),
        tails: wp.array3d(dtype=wp.vec3f),
        ends: wp.array2d(dtype=wp.int32),
        points: wp.array2d(dtype=wp.vec3f),
        pixels: wp.array2d(dtype=wp.int32),
        labels: wp.array2d(dtype=wp.int32),
        normals: wp.array2d(dtype=wp.vec3f),
        count: wp.array(dtype=wp.int32),
    ):
        """Write the clouds of the masked environments from ``first_env`` on.

        ``labels`` and ``normals`` are written where they have elements, the latter in the world's frame.
        """
        thread = wp.tid()
        env = first_env + (thread >> block_bits())
        lanes = 1 << block_bits()
        lane = lower_bits(thread, block_bits())
        if not mask[env]:
            return

        num_points = pixels.shape[1]
        num_leaves = num_leaves_of(env, scene)
        key = error_keys[env]
        find_rectangles(env, lane, lanes, scene, frame_pos, frame_quat, key, rectangles, tails, ends)
        num_places = wp.int32(0)
        if num_leaves > 0:
            num_places = ends[env, num_leaves * scene.cameras.shape[0] - 1]

        found = wp.int32(0)
        num_rays = wp.int32(0)
        position = lane
        # The same in all threads of the block, or some would miss a sum.
        first = wp.int32(0)
        while first < num_places and found < num_points and (num_rays < scene.most_rays or first % ROUND != 0):
            seen = Seen()
            if position < num_places:
                drawn = permuted(position, num_places, wp.uint32(keys[env]))
                place = place_at(drawn, env, num_leaves, scene, key, rectangles, tails, ends)
                if place.pixel[0] >= 0:
                    seen = see(place, env, scene, key)
            is_valid = wp.int32(seen.is_valid)
            is_cast = wp.int32(seen.is_cast)

            k = found
            if wp.static(in_blocks):
                of_lanes = wp.tile(is_valid)
                k += wp.untile(wp.tile_scan_inclusive(of_lanes)) - 1
                found += wp.tile_extract(wp.tile_sum(of_lanes), 0)
                num_rays += wp.tile_extract(wp.tile_sum(wp.tile(is_cast)), 0)
            else:
                found += is_valid
                num_rays += is_cast
            if is_valid > 0 and k < num_points:
                points[env, k] = seen.point
                if to_output.shape[0] > 0:
                    points[env, k] = moved(seen.point, to_output[env])
                pixels[env, k] = seen.pixel
                if labels.shape[0] > 0:
                    labels[env, k] = seen.label
                if normals.shape[0] > 0:
                    normals[env, k] = seen.normal
            first += lanes
            position += lanes

        found = wp.min(found, num_points)
        sync_block()
        if lane == 0:
            count[env] = found
        k = found + lane
        while k < num_points:
            # Too few were valid: they are repeated.
            again = k % wp.max(found, 1)
            if found == 0:
                points[env, again] = wp.vec3f()
                pixels[env, again] = 0
            points[env, k] = points[env, again]
            pixels[env, k] = pixels[env, again]
            if labels.shape[0] > 0:
                labels[env, k] = labels[env, again]
            if normals.shape[0] > 0:
                normals[env, k] = normals[env, again]
            k += lanes

    return cast_clouds
