# SPDX-License-Identifier: BSD-3-Clause
"""Warp kernel of surface normals: the same code on the CPU and on CUDA."""

import warp as wp

from isaaclab_pc.sensors.kernels.pixel_kernels import Matrix, lower_bits


@wp.func
def read(
    depth: wp.array3d(dtype=wp.float32), env: wp.int32, row: wp.int32, column: wp.int32, far: wp.float32
) -> wp.float32:
    """Read a depth [m]; infinity for a miss, from ``far`` on, and outside the image."""
    if row < 0 or column < 0 or row >= depth.shape[1] or column >= depth.shape[2]:
        return wp.inf
    z = depth[env, row, column]
    # Written so that NaN is a miss.
    if z > 0.0 and z < far:
        return z
    return wp.inf


@wp.func
def seen_at(z: wp.float32, row: wp.int32, column: wp.int32, m: Matrix, centers: wp.array2d(dtype=wp.vec2f)) -> wp.vec3f:
    """Return the point of a depth, relative to the camera [m]."""
    u = wp.float32(column) + 0.5
    v = wp.float32(row) + 0.5
    if centers.shape[0] > 0:
        center = centers[row, column]
        u = center[0]
        v = center[1]
    return wp.vec3f(
        z * (u * m[0, 0] + v * m[0, 1] + m[0, 2]),
        z * (u * m[1, 0] + v * m[1, 1] + m[1, 2]),
        z * (u * m[2, 0] + v * m[2, 1] + m[2, 2]),
    )


@wp.func
def tangent(
    depth: wp.array3d(dtype=wp.float32),
    env: wp.int32,
    row: wp.int32,
    column: wp.int32,
    down: wp.int32,
    right: wp.int32,
    z: wp.float32,
    far: wp.float32,
    m: Matrix,
    centers: wp.array2d(dtype=wp.vec2f),
) -> wp.vec3f:
    """Return the way to the next pixel along one axis [m], on the side that is closer in depth; 0 if both are misses.

    ``z`` is the depth at the pixel itself.
    """
    step = wp.int32(1)
    near = read(depth, env, row + down, column + right, far)
    behind = read(depth, env, row - down, column - right, far)
    if wp.abs(behind - z) < wp.abs(near - z):
        near = behind
        step = -1
    if near == wp.inf:
        return wp.vec3f()
    beside = seen_at(near, row + step * down, column + step * right, m, centers)
    way = beside - seen_at(z, row, column, m, centers)
    return wp.float32(step) * way


# A loop over the grid, which no launch of ours needs, would cost registers.
@wp.kernel(enable_backward=False, grid_stride=False)
def write_normals(
    depth: wp.array3d(dtype=wp.float32),
    matrices: wp.array2d(dtype=Matrix),
    centers: wp.array2d(dtype=wp.vec2f),
    camera: wp.int32,
    first_pixel: wp.int32,
    far: wp.float32,
    pixels: wp.array2d(dtype=wp.int32),
    env_bits: wp.int32,
    normals: wp.array2d(dtype=wp.vec3f),
) -> None:
    """Write the normals at those pixels that are of one camera, with 2 ** ``env_bits`` threads for each environment.

    ``first_pixel`` is the number of pixels of the cameras before it, ``far`` the depth of a miss [m]. See
    :func:`isaaclab_pc.sensors.features.estimate_normals`.
    """
    # The numbers of an environment and of its points are cut out of the thread's: a division takes 64 bits and longer.
    thread = wp.tid()
    env = thread >> env_bits
    k = lower_bits(thread, env_bits)
    if k >= pixels.shape[1]:
        return
    pixel = pixels[env, k] - first_pixel
    width = depth.shape[2]
    if pixel < 0 or pixel >= depth.shape[1] * width:
        return

    row = pixel // width
    column = pixel - row * width
    m = matrices[env, camera]
    z = read(depth, env, row, column, far)
    if z == wp.inf:
        z = wp.float32(1.0)

    towards_camera = -wp.normalize(seen_at(z, row, column, m, centers))
    along_row = tangent(depth, env, row, column, 0, 1, z, far, m, centers)
    across = wp.cross(along_row, tangent(depth, env, row, column, 1, 0, z, far, m, centers))
    length = wp.length(across)
    normal = towards_camera
    if length > 0.0:
        normal = across / length
    if wp.dot(normal, towards_camera) < 0.0:
        normal = -normal
    normals[env, k] = normal
