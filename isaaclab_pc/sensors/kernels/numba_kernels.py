# SPDX-License-Identifier: BSD-3-Clause
"""The cloud operator on the CPU: one environment at a time, one thread for each share of the environments.

Vectorised by LLVM through numba. Scratch memory is that of one environment for each thread, whatever the number of
environments. :mod:`isaaclab_pc.sensors.kernels.warp_kernels` is the same algorithm for CUDA; both give the same pixels.
"""

import numpy as np
from numba import njit, prange

from isaaclab_pc.sensors.kernels.numba_sampler_kernels import (
    below,
    farthest,
    first_of_voxels,
    mix,
    of_rank,
    permuted,
    strata,
)

u32 = np.uint32
f32 = np.float32

# Places of the samplers in `isaaclab_pc.sensors.cloud_checks.SAMPLERS`.
RANDOM = 0
GRID = 1
VOXEL = 2
FPS = 3


@njit(cache=True)
def _of_camera(centers, camera):
    return None if centers is None else centers[camera]


@njit(cache=True)
def _center(centers, v, u):
    """Return where a pixel is in a pinhole's image [px]; without a lens, which is known at compile time, its middle."""
    if centers is None:
        return f32(u) + f32(0.5), f32(v) + f32(0.5)
    return centers[v, u, 0], centers[v, u, 1]


@njit(cache=True)
def _mark(depth, size, matrix, centers, crop, near, far, inside):
    """Tell which pixels of one image are inside the crop, (H * W,) uint8."""
    height, width = size
    ax, bx, cx, tx = matrix[0, 0], matrix[0, 1], matrix[0, 2], matrix[0, 3]
    ay, by, cy, ty = matrix[1, 0], matrix[1, 1], matrix[1, 2], matrix[1, 3]
    az, bz, cz, tz = matrix[2, 0], matrix[2, 1], matrix[2, 2], matrix[2, 3]
    x0, y0, z0 = crop[0, 0], crop[0, 1], crop[0, 2]
    x1, y1, z1 = crop[1, 0], crop[1, 1], crop[1, 2]

    for v in range(height):
        row = depth[v * width : (v + 1) * width]
        out = inside[v * width : (v + 1) * width]
        for u in range(width):
            fu, fv = _center(centers, v, u)
            z = row[u]
            x = z * (bx * fv + cx + fu * ax) + tx
            y = z * (by * fv + cy + fu * ay) + ty
            w = z * (bz * fv + cz + fu * az) + tz
            out[u] = (z > near) & (z < far) & (x >= x0) & (x <= x1) & (y >= y0) & (y <= y1) & (w >= z0) & (w <= z1)


@njit(cache=True)
def _unproject(depth, size, matrix, centers, points):
    """Write the points of all pixels of one image, valid or not, (3, H * W)."""
    height, width = size
    for axis in range(3):
        a, b, c, t = matrix[axis, 0], matrix[axis, 1], matrix[axis, 2], matrix[axis, 3]
        for v in range(height):
            row = depth[v * width : (v + 1) * width]
            out = points[axis, v * width : (v + 1) * width]
            for u in range(width):
                fu, fv = _center(centers, v, u)
                out[u] = row[u] * (b * fv + c + fu * a) + t


@njit(cache=True)
def _number_voxels(depth, size, matrix, centers, crop, near, far, voxel_size, voxels):
    """Write the number of the voxel of each pixel of one image, (H * W,) int32; -1 where it is not inside the crop."""
    height, width = size
    per_metre = f32(1.0) / voxel_size
    x0, y0, z0 = crop[0, 0], crop[0, 1], crop[0, 2]
    x1, y1, z1 = crop[1, 0], crop[1, 1], crop[1, 2]
    cells_y = np.int32((y1 - y0) * per_metre) + np.int32(1)
    cells_z = np.int32((z1 - z0) * per_metre) + np.int32(1)
    ax, bx, cx, tx = matrix[0, 0], matrix[0, 1], matrix[0, 2], matrix[0, 3]
    ay, by, cy, ty = matrix[1, 0], matrix[1, 1], matrix[1, 2], matrix[1, 3]
    az, bz, cz, tz = matrix[2, 0], matrix[2, 1], matrix[2, 2], matrix[2, 3]

    for v in range(height):
        row = depth[v * width : (v + 1) * width]
        out = voxels[v * width : (v + 1) * width]
        for u in range(width):
            fu, fv = _center(centers, v, u)
            z = row[u]
            x = z * (bx * fv + cx + fu * ax) + tx
            y = z * (by * fv + cy + fu * ay) + ty
            w = z * (bz * fv + cz + fu * az) + tz

            inside = (z > near) & (z < far) & (x >= x0) & (x <= x1) & (y >= y0) & (y <= y1) & (w >= z0) & (w <= z1)
            i = np.int32((x - x0) * per_metre)
            j = np.int32((y - y0) * per_metre)
            k = np.int32((w - z0) * per_metre)
            number = np.int32(np.int32(np.int32(i * cells_y) + j) * cells_z) + k
            out[u] = number if inside else np.int32(-1)


@njit(cache=True)
def _remove(classes, removed, values, nothing):
    """Overwrite the values of the pixels of removed classes."""
    for i in range(classes.size):
        label = classes[i]
        if 0 <= label < removed.size and removed[label]:
            values[i] = nothing


@njit(inline="always")
def _image(images, strides, sizes, env, camera):
    start = env * strides[camera]
    return images[camera][start : start + sizes[camera, 0] * sizes[camera, 1]]


@njit(cache=True)
def _sample_one(
    env,
    depths,
    depth_strides,
    labels,
    label_strides,
    removed,
    sizes,
    matrices,
    centers,
    crop,
    near,
    far,
    order,
    key,
    sampler,
    voxel_size,
    scratch,
    pixels,
):
    """Choose the pixels of one environment's cloud.

    Returns:
        The number of valid pixels.
    """
    inside, points, found, voxels, voxel_scratch = scratch
    offset = 0
    for c in range(len(depths)):
        size = (sizes[c, 0], sizes[c, 1])
        depth = _image(depths, depth_strides, sizes, env, c)
        table = _of_camera(centers, c)
        image = inside[offset : offset + depth.size]
        if sampler == VOXEL:
            numbers = voxels[offset : offset + depth.size]
            _number_voxels(depth, size, matrices[env, c], table, crop, near[c], far[c], voxel_size, numbers)
        else:
            _mark(depth, size, matrices[env, c], table, crop, near[c], far[c], image)

        if sampler == FPS:
            _unproject(depth, size, matrices[env, c], table, points[:, offset : offset + depth.size])

        if removed.size > 0:
            classes = _image(labels, label_strides, sizes, env, c)
            if sampler == VOXEL:
                _remove(classes, removed[c], numbers, -1)
            else:
                _remove(classes, removed[c], image, 0)

        offset += depth.size

    # The voxel sampler lists no pixels unless it takes them all: it looks for the first one of each voxel instead.
    num_points = pixels.size
    total = 0
    if sampler == VOXEL:
        for i in range(voxels.size):
            inside[i] = voxels[i] >= 0
        for i in range(voxels.size):
            total += inside[i]
    if sampler != VOXEL or total <= num_points:
        total = 0
        for i in range(order.size):
            found[total] = order[i]
            total += inside[order[i]]

    # With too few pixels all are taken, and then repeated.
    if total <= num_points:
        for k in range(num_points):
            pixels[k] = found[k % total] if total > 0 else 0
        return total

    start = below(mix(key), total)
    if sampler == RANDOM:
        permuted(pixels, num_points, total, key)
    elif sampler == GRID:
        strata(pixels, num_points, total, key)
    else:
        if sampler == FPS:
            near_points = np.empty((3, total), np.float32)
            for axis in range(3):
                for i in range(total):
                    near_points[axis, i] = points[axis, found[i]]
            farthest(near_points, start, pixels)
        else:
            pixel = of_rank(start, inside)
            occupied = first_of_voxels(voxels, inside, pixel, num_points, found, voxel_scratch)
            permuted(pixels, min(occupied, num_points), occupied, key)
            if occupied < num_points:
                rest = pixels[occupied:]
                permuted(rest, rest.size, total - occupied, key)
                rest += np.int32(occupied)

    # So far these are positions in the list of pixels.
    for k in range(num_points):
        pixels[k] = found[pixels[k]]
    return total


@njit(error_model="numpy", cache=True)  # Without a check for division by zero: every image has columns.
def _write_points(env, depths, depth_strides, sizes, matrices, centers, to_output, pixels, points):
    """Unproject the chosen pixels of one environment."""
    offset = 0
    for c in range(len(depths)):
        depth = _image(depths, depth_strides, sizes, env, c)
        m = matrices[env, c]
        table = _of_camera(centers, c)
        width = u32(sizes[c, 1])
        for k in range(pixels.size):
            pixel = u32(pixels[k] - offset)  # Pixels of earlier cameras wrap around to large numbers.
            if pixel < depth.size:
                v = u32(pixel // width)
                u = u32(pixel - v * width)
                fu, fv = _center(table, np.int32(v), np.int32(u))
                z = depth[np.uintp(pixel)]
                for axis in range(3):
                    points[k, axis] = z * (m[axis, 1] * fv + m[axis, 2] + fu * m[axis, 0]) + m[axis, 3]
        offset += depth.size

    if to_output.shape[0] > 0:
        m = to_output[env]
        for k in range(pixels.size):
            x, y, z = points[k, 0], points[k, 1], points[k, 2]
            for axis in range(3):
                points[k, axis] = m[axis, 0] * x + m[axis, 1] * y + m[axis, 2] * z + m[axis, 3]


@njit(parallel=True, cache=True)
def sample_clouds(
    depths,
    depth_strides,
    labels,
    label_strides,
    removed,
    sizes,
    matrices,
    centers,
    to_output,
    crop,
    near,
    far,
    order,
    keys,
    mask,
    sampler,
    voxel_size,
    num_threads,
    points,
    pixels,
    count,
):
    """Fill ``points`` (N, K, 3) [m], ``pixels`` (N, K), numbered through all cameras, and ``count`` (N,).

    Images of each camera are flat: depth [m], float32, and ids, int32, which are not read where ``removed`` (C, number
    of ids) is empty. Strides are the pixels from one environment's image to the next; ``sizes`` are (H, W), (C, 2).
    ``matrices`` (N, C, 3, 4) take (z u, z v, z, 1) to the crop's frame, ``to_output`` (N, 3, 4) from there to the
    points' frame; it is empty where both are one. ``centers`` are as for :class:`DepthToCloud`, None where all are
    pinholes. ``order`` lists all P pixels, camera by camera, neighbours close together. ``num_threads`` shares of the
    environments run side by side.
    """
    num_envs, num_points = pixels.shape
    total_pixels = order.size
    num_slots = 2
    while num_slots < 2 * total_pixels:
        num_slots *= 2

    for thread in prange(num_threads):
        voxel_pixels = total_pixels if sampler == VOXEL else 0
        scratch = (
            np.empty(total_pixels, np.uint8),
            np.empty((3, total_pixels if sampler == FPS else 0), np.float32),
            # Pixels are written before it is known whether they count: one that does not, after all that do.
            np.empty(total_pixels + 1, np.int32),
            np.empty(voxel_pixels, np.int32),
            (
                np.empty(voxel_pixels, np.int32),
                np.empty(voxel_pixels, np.uint32),
                np.empty(voxel_pixels, np.int32),
                np.empty(voxel_pixels, np.uint8),
                np.empty(num_slots if sampler == VOXEL else 0, np.int32),
            ),
        )

        for env in range(thread * num_envs // num_threads, (thread + 1) * num_envs // num_threads):
            if not mask[env]:
                continue
            total = _sample_one(
                env,
                depths,
                depth_strides,
                labels,
                label_strides,
                removed,
                sizes,
                matrices,
                centers,
                crop,
                near,
                far,
                order,
                u32(keys[env]),
                sampler,
                voxel_size,
                scratch,
                pixels[env],
            )
            count[env] = min(total, num_points)
            if total > 0:
                _write_points(env, depths, depth_strides, sizes, matrices, centers, to_output, pixels[env], points[env])
            else:
                points[env] = f32(0.0)
