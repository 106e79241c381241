# SPDX-License-Identifier: BSD-3-Clause
"""The kernel that casts a cloud's rays: one block for each environment on CUDA, one thread for each on the CPU.

An environment's valid pixels lie in the rectangles that the boxes of its shapes, cut to the crop's box, take up in the
images. So pixels of these rectangles are drawn in a random order without repetition, and a ray is cast at each until
enough of them are valid. A pixel that several rectangles hold belongs to the first of them.
"""

from typing import Any

import warp as wp

from isaaclab_pc.sensors.kernels.newton_ray_kernels import NO_HIT, Shapes
from isaaclab_pc.sensors.kernels.warp_base_kernels import (
    BLOCK_LANES,
    Matrix,
    block_bits,
    lower_bits,
    moved,
    permuted,
    unprojected,
)

ROUND = wp.constant(BLOCK_LANES)
"""Positions of the random order between two looks at how many rays were cast: on every device the same."""

UNLABELLED = wp.constant(1)
"""Isaac Lab's semantic id of what is no shape."""


@wp.struct
class RayCamera:
    """One camera of all environments."""

    width: wp.int32
    height: wp.int32
    rays: wp.array4d(dtype=wp.vec3f)
    """Origin and direction of the rays of a lens in the camera's frame (x right, y up, z backward), (1, H, W, 2);
    empty for a pinhole."""
    poses: wp.array2d(dtype=wp.transformf)
    """Poses in the world, shape (1, N)."""
    intrinsics: wp.array(dtype=wp.mat33f)
    """Pinhole matrices of the image [px], shape (N,)."""
    centers: wp.array2d(dtype=wp.vec2f)
    """Where a pinhole would see what each pixel of a lens sees [px], (H, W); empty for a pinhole."""
    first_pixel: wp.int32
    near: wp.float32
    far: wp.float32
    reach: wp.float32
    """Length of the longest ray [m], Newton's own far limit."""


@wp.struct
class Scene:
    """Constants of all environments."""

    cameras: wp.array(dtype=RayCamera)
    shapes: Shapes
    leaf_starts: wp.array(dtype=wp.int32)
    """Where each environment's leaves begin in ``leaves``, shape (N + 1,)."""
    leaves: wp.array(dtype=wp.int32)
    """Leaves of each environment that can give points."""
    shape_ids: wp.array(dtype=wp.uint32)
    """Semantic id of each shape; empty where nothing needs them."""
    removed: wp.array(dtype=wp.bool)
    """True at the semantic ids that give no point."""
    crop_lower: wp.vec3f
    crop_upper: wp.vec3f
    most_rays: wp.int32
    """Rays after which no further round is begun."""


@wp.struct
class Seen:
    """A pixel that a ray was cast at."""

    is_valid: wp.int32
    """1 where it has a point in the crop that no class removes; the rest is 0 otherwise."""
    point: wp.vec3f
    """In the crop's frame [m]."""
    pixel: wp.int32
    label: wp.int32
    normal: wp.vec3f
    """On the camera's side, in the world."""


@wp.func_native("""
#if defined(__CUDA_ARCH__)
    __syncthreads();
#endif
""")
def sync_block():
    """Wait for all threads of the block."""
    ...


@wp.func
def ray_of(row: wp.int32, column: wp.int32, camera: RayCamera, env: wp.int32) -> tuple[wp.vec3f, wp.vec3f]:
    """Return origin and direction of a pixel's ray in the camera's frame; a direction of 0 where there is none."""
    if camera.rays.shape[1] > 0:
        return camera.rays[0, row, column, 0], camera.rays[0, row, column, 1]
    # As Isaac Lab's renderer does, to the last bit.
    k = camera.intrinsics[env]
    across = (float(column) + 0.5 - k[0, 2]) / k[0, 0]
    direction = wp.vec3f(across, -(float(row) + 0.5 - k[1, 2]) / k[1, 1], -1.0)
    return wp.vec3f(), wp.normalize(direction)


@wp.func
def image_rectangle(lower: wp.vec3f, upper: wp.vec3f, camera: RayCamera, env: wp.int32) -> wp.vec4i:
    """Return first and end column, first and end row of the pixels that a box in the world may take up."""
    width = camera.width
    height = camera.height
    everything = wp.vec4i(0, width, 0, height)
    if camera.centers.shape[0] > 0:
        return everything

    k = camera.intrinsics[env]
    to_camera = wp.transform_inverse(camera.poses[0, env])
    u0 = float(wp.inf)
    v0 = float(wp.inf)
    u1 = float(-wp.inf)
    v1 = float(-wp.inf)
    for corner in range(8):
        x = wp.where((corner & 1) > 0, upper[0], lower[0])
        y = wp.where((corner & 2) > 0, upper[1], lower[1])
        z = wp.where((corner & 4) > 0, upper[2], lower[2])
        p = wp.transform_point(to_camera, wp.vec3f(x, y, z))
        if wp.isnan(p[0] + p[1] + p[2]):
            # The camera is at no place; a number made of NaN could be any.
            return wp.vec4i(0, 0, 0, 0)
        if p[2] > -1.0e-3:
            return everything
        u = k[0, 2] - k[0, 0] * p[0] / p[2]
        v = k[1, 2] + k[1, 1] * p[1] / p[2]
        u0 = wp.min(u0, u)
        u1 = wp.max(u1, u)
        v0 = wp.min(v0, v)
        v1 = wp.max(v1, v)

    # A pixel is seen at its centre. One more on each side, for what is lost to rounding.
    return wp.vec4i(
        wp.int32(wp.clamp(u0 - 1.5, 0.0, float(width))),
        wp.int32(wp.clamp(u1 + 1.5, 0.0, float(width))),
        wp.int32(wp.clamp(v0 - 1.5, 0.0, float(height))),
        wp.int32(wp.clamp(v1 + 1.5, 0.0, float(height))),
    )


@wp.func
def crop_box(
    env: wp.int32, scene: Scene, frame_pos: wp.array(dtype=wp.vec3f), frame_quat: wp.array(dtype=wp.quatf)
) -> tuple[wp.vec3f, wp.vec3f]:
    """Return the corners of the box in the world that holds an environment's crop [m]."""
    center = (scene.crop_lower + scene.crop_upper) * 0.5
    half = (scene.crop_upper - scene.crop_lower) * 0.5
    if frame_quat.shape[0] > 0:
        rotation = wp.quat_to_matrix(frame_quat[env])
        center = rotation * center
        turned = wp.vec3f()
        for row in range(3):
            turned[row] = wp.abs(rotation[row, 0]) * half[0] + wp.abs(rotation[row, 1]) * half[1]
            turned[row] += wp.abs(rotation[row, 2]) * half[2]
        half = turned
    if frame_pos.shape[0] > 0:
        center += frame_pos[env]

    # A point at the very face must not be lost to rounding.
    half += wp.vec3f(1.0e-5)
    return center - half, center + half


@wp.func
def find_rectangles(
    env: wp.int32,
    lane: wp.int32,
    lanes: wp.int32,
    scene: Scene,
    frame_pos: wp.array(dtype=wp.vec3f),
    frame_quat: wp.array(dtype=wp.quatf),
    rectangles: wp.array2d(dtype=wp.vec4i),
    ends: wp.array2d(dtype=wp.int32),
):
    """Write each leaf's rectangle in each camera's image, and the number of pixels up to its end."""
    box_lower, box_upper = crop_box(env, scene, frame_pos, frame_quat)
    first_leaf = scene.leaf_starts[env]
    num_leaves = scene.leaf_starts[env + 1] - first_leaf
    num_rectangles = num_leaves * scene.cameras.shape[0]

    index = lane
    while index < num_rectangles:
        camera = scene.cameras[index // num_leaves]
        leaf = scene.leaves[first_leaf + index % num_leaves]
        lower = wp.max(scene.shapes.lowers[leaf], box_lower)
        upper = wp.min(scene.shapes.uppers[leaf], box_upper)
        found = wp.vec4i(0, 0, 0, 0)
        if lower[0] <= upper[0] and lower[1] <= upper[1] and lower[2] <= upper[2]:
            found = image_rectangle(lower, upper, camera, env)
        rectangles[env, index] = found
        index += lanes

    sync_block()
    if lane == 0:
        end = wp.int32(0)
        for i in range(num_rectangles):
            r = rectangles[env, i]
            end += (r[1] - r[0]) * (r[3] - r[2])
            ends[env, i] = end
    sync_block()


@wp.func
def place_at(
    position: wp.int32,
    env: wp.int32,
    num_leaves: wp.int32,
    rectangles: wp.array2d(dtype=wp.vec4i),
    ends: wp.array2d(dtype=wp.int32),
) -> wp.vec3i:
    """Return camera, row and column of a position in the rectangles; camera -1 where an earlier one holds it, too."""
    index = wp.int32(0)
    start = wp.int32(0)
    while ends[env, index] <= position:
        start = ends[env, index]
        index += 1

    r = rectangles[env, index]
    width = r[1] - r[0]
    row = r[2] + (position - start) // width
    column = r[0] + (position - start) % width
    camera = index // num_leaves
    for earlier in range(camera * num_leaves, index):
        other = rectangles[env, earlier]
        if column >= other[0] and column < other[1] and row >= other[2] and row < other[3]:
            return wp.vec3i(-1, row, column)
    return wp.vec3i(camera, row, column)


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


def make_cast_clouds(cast: Any, with_normal: bool, in_blocks: bool) -> wp.Kernel:
    """Return the kernel around a function of :func:`~isaaclab_pc.sensors.kernels.newton_ray_kernels.make_cast`.

    ``in_blocks``: a block of threads shares an environment, as on CUDA; otherwise it has one thread.
    """

    @wp.func
    def see(place: wp.vec3i, env: wp.int32, scene: Scene, matrices: wp.array2d(dtype=Matrix)) -> Seen:
        """Cast the ray of a camera's pixel, (camera, row, column), in an environment."""
        seen = Seen()
        camera = scene.cameras[place[0]]
        row = place[1]
        column = place[2]
        pose = camera.poses[0, env]
        origin, direction = ray_of(row, column, camera, env)
        origin = wp.transform_point(pose, origin)
        direction = wp.transform_vector(pose, direction)
        forward = wp.normalize(wp.transform_vector(pose, wp.vec3f(0.0, 0.0, -1.0)))
        if wp.dot(direction, direction) <= 1.0e-12:
            return seen

        hit = cast(scene.shapes, env, origin, direction, forward, camera.reach)
        z = hit.distance * wp.dot(direction, forward)
        # Written so that NaN is a miss.
        if hit.shape_index == NO_HIT or not (z > camera.near and z < camera.far):
            return seen

        center = wp.vec2f(float(column) + 0.5, float(row) + 0.5)
        if camera.centers.shape[0] > 0:
            center = camera.centers[row, column]
        p = unprojected(z, center, matrices[env, place[0]])
        inside = p[0] >= scene.crop_lower[0] and p[1] >= scene.crop_lower[1] and p[2] >= scene.crop_lower[2]
        inside = inside and p[0] <= scene.crop_upper[0] and p[1] <= scene.crop_upper[1] and p[2] <= scene.crop_upper[2]
        if not inside or not is_kept(hit.shape_index, scene):
            return seen

        seen.is_valid = 1
        seen.point = p
        seen.pixel = camera.first_pixel + row * camera.width + column
        seen.label = label_of(hit.shape_index, scene)
        if wp.static(with_normal):
            seen.normal = hit.normal * wp.where(wp.dot(hit.normal, direction) > 0.0, -1.0, 1.0)
        return seen

    @wp.kernel(enable_backward=False, grid_stride=False, module="unique")
    def cast_clouds(
        first_env: wp.int32,
        keys: wp.array(dtype=wp.int32),
        mask: wp.array(dtype=wp.bool),
        frame_pos: wp.array(dtype=wp.vec3f),
        frame_quat: wp.array(dtype=wp.quatf),
        matrices: wp.array2d(dtype=Matrix),
        to_output: wp.array(dtype=Matrix),
        scene: Scene,
        rectangles: wp.array2d(dtype=wp.vec4i),
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
        num_leaves = scene.leaf_starts[env + 1] - scene.leaf_starts[env]
        find_rectangles(env, lane, lanes, scene, frame_pos, frame_quat, rectangles, ends)
        num_places = wp.int32(0)
        if num_leaves > 0:
            num_places = ends[env, num_leaves * scene.cameras.shape[0] - 1]

        found = wp.int32(0)
        num_rays = wp.int32(0)
        position = lane
        # The same in all threads of the block, or some would miss a sum.
        first = wp.int32(0)
        while first < num_places and found < num_points and (num_rays < scene.most_rays or first % ROUND != 0):
            place = wp.vec3i(-1, 0, 0)
            if position < num_places:
                drawn = permuted(position, num_places, wp.uint32(keys[env]))
                place = place_at(drawn, env, num_leaves, rectangles, ends)
            is_cast = wp.where(place[0] >= 0, 1, 0)
            seen = Seen()
            if place[0] >= 0:
                seen = see(place, env, scene, matrices)
            is_valid = wp.int32(seen.is_valid)

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
