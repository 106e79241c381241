# SPDX-License-Identifier: BSD-3-Clause
"""Cameras, scene and crop of the rays of clouds, and where in an image a box may be."""

import warp as wp

from isaaclab_pc.sensors.kernels.newton_ray_kernels import Shapes
from isaaclab_pc.sensors.kernels.pixel_kernels import Matrix
from isaaclab_pc.sensors.realism.kernels import Camera as ErrorCamera
from isaaclab_pc.sensors.realism.kernels import Parameters


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
    """All environments, as rays meet them."""

    cameras: wp.array(dtype=RayCamera)
    matrices: wp.array2d(dtype=Matrix)
    """From a pixel and its depth to the crop's frame, shape (N, C)."""
    shapes: Shapes
    leaf_starts: wp.array(dtype=wp.int32)
    """Where each environment's leaves begin in ``leaves``, shape (N + 1,)."""
    leaf_ends: wp.array(dtype=wp.int32)
    """Where those end that can give points, shape (N,)."""
    leaves: wp.array(dtype=wp.int32)
    """Leaves of each environment, first those that can give points."""
    shape_ids: wp.array(dtype=wp.uint32)
    """Semantic id of each shape; empty where nothing needs them."""
    removed: wp.array(dtype=wp.bool)
    """True at the semantic ids that give no point."""
    crop_lower: wp.vec3f
    crop_upper: wp.vec3f
    most_rays: wp.int32
    """Pixels at which rays are cast before no further round is begun."""
    errors: wp.array(dtype=ErrorCamera)
    """How each camera errs, shape (C,); empty where none does."""
    parameters: wp.array2d(dtype=Parameters)
    """How large the errors of each environment and camera are, shape (N, C)."""
    misplaced: wp.vec2f
    """How far a point may be misplaced by errors of the calibration [m], and further per metre of its distance."""
    flies: wp.bool
    """Whether pixels may read what is between two surfaces."""


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


@wp.struct
class Ray:
    """The ray of a pixel in the world."""

    origin: wp.vec3f
    direction: wp.vec3f
    """0 where the pixel has none."""
    forward: wp.vec3f
    """The camera's optical axis."""


@wp.func
def world_ray(row: wp.int32, column: wp.int32, camera: RayCamera, env: wp.int32) -> Ray:
    pose = camera.poses[0, env]
    origin, direction = ray_of(row, column, camera, env)
    ray = Ray()
    ray.origin = wp.transform_point(pose, origin)
    ray.direction = wp.transform_vector(pose, direction)
    ray.forward = wp.normalize(wp.transform_vector(pose, wp.vec3f(0.0, 0.0, -1.0)))
    return ray


@wp.func
def pinhole_of(camera: RayCamera, env: wp.int32) -> wp.vec4f:
    """Return fx, fy, cx and cy [px]."""
    k = camera.intrinsics[env]
    return wp.vec4f(k[0, 0], k[1, 1], k[0, 2], k[1, 2])


@wp.func
def center_of_pixel(row: wp.int32, column: wp.int32, camera: RayCamera) -> wp.vec2f:
    """Return where a pinhole would see what the pixel sees [px]."""
    if camera.centers.shape[0] > 0:
        return camera.centers[row, column]
    return wp.vec2f(float(column) + 0.5, float(row) + 0.5)


@wp.func
def image_rectangle(lower: wp.vec3f, upper: wp.vec3f, margin: wp.float32, camera: RayCamera, env: wp.int32) -> wp.vec4i:
    """Return first and end column, first and end row of the pixels that a box in the world may take up.

    ``margin`` more of them on each side [px].
    """
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
    more = margin + 1.5
    return wp.vec4i(
        wp.int32(wp.clamp(u0 - more, 0.0, float(width))),
        wp.int32(wp.clamp(u1 + more, 0.0, float(width))),
        wp.int32(wp.clamp(v0 - more, 0.0, float(height))),
        wp.int32(wp.clamp(v1 + more, 0.0, float(height))),
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
def leaf_rectangle(
    env: wp.int32,
    index: wp.int32,
    leaf: wp.int32,
    lower: wp.vec3f,
    upper: wp.vec3f,
    margin: wp.float32,
    scene: Scene,
) -> wp.vec4i:
    """Return the pixels of a camera, as :func:`image_rectangle`, that may show an environment's leaf in a box."""
    shape = scene.leaves[scene.leaf_starts[env] + leaf]
    lower = wp.max(scene.shapes.lowers[shape], lower)
    upper = wp.min(scene.shapes.uppers[shape], upper)
    if lower[0] <= upper[0] and lower[1] <= upper[1] and lower[2] <= upper[2]:
        return image_rectangle(lower, upper, margin, scene.cameras[index], env)
    return wp.vec4i(0, 0, 0, 0)


@wp.kernel(enable_backward=False)
def aim_at_pixels(pixels: wp.array2d(dtype=wp.int32), scene: Scene, poses: wp.array2d(dtype=wp.transformf)):
    """Aim a camera of one pixel at each point, for Newton's renderer to colour it.

    Writes poses, (K, N), that look along the rays of a cloud's pixels, (N, K), numbered through all cameras.
    """
    env, k = wp.tid()
    pixel = pixels[env, k]
    index = scene.cameras.shape[0] - 1
    while pixel < scene.cameras[index].first_pixel:
        index -= 1

    camera = scene.cameras[index]
    place = pixel - camera.first_pixel
    ray = world_ray(place // camera.width, place % camera.width, camera, env)
    poses[k, env] = wp.transformf(ray.origin, wp.quat_between_vectors(wp.vec3f(0.0, 0.0, -1.0), ray.direction))
