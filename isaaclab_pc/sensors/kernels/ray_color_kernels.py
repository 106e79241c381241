# SPDX-License-Identifier: BSD-3-Clause
"""Warp kernel that aims a camera of one pixel at each point of a cloud, for Newton's renderer to colour them."""

import warp as wp

from isaaclab_pc.sensors.kernels.ray_scene_kernels import Scene, world_ray


@wp.kernel(enable_backward=False)
def aim_at_pixels(pixels: wp.array2d(dtype=wp.int32), scene: Scene, poses: wp.array2d(dtype=wp.transformf)):
    """Write poses, (K, N), that look along the rays of a cloud's pixels, (N, K), numbered through all cameras."""
    env, k = wp.tid()
    pixel = pixels[env, k]
    index = scene.cameras.shape[0] - 1
    while pixel < scene.cameras[index].first_pixel:
        index -= 1

    camera = scene.cameras[index]
    place = pixel - camera.first_pixel
    ray = world_ray(place // camera.width, place % camera.width, camera, env)
    poses[k, env] = wp.transformf(ray.origin, wp.quat_between_vectors(wp.vec3f(0.0, 0.0, -1.0), ray.direction))
