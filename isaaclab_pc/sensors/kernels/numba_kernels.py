# SPDX-License-Identifier: BSD-3-Clause
"""The cloud operator on the CPU: one environment at a time, one thread for each share of the environments.

Vectorised by LLVM through numba. Scratch memory is that of one environment for each thread, whatever the number of
environments. :mod:`isaaclab_pc.sensors.kernels.warp_kernels` is the same algorithm for CUDA; both give the same pixels.
"""

import numpy as np
from numba import njit, prange

u32 = np.uint32
f32 = np.float32

PERMUTATION_ROUNDS = 6


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
def _remove(classes, removed, inside):
    """Clear the pixels of removed classes."""
    for i in range(classes.size):
        label = classes[i]
        if 0 <= label < removed.size and removed[label]:
            inside[i] = 0


@njit(inline="always")
def _image(images, strides, sizes, env, camera):
    start = env * strides[camera]
    return images[camera][start : start + sizes[camera, 0] * sizes[camera, 1]]


@njit(inline="always")
def mix(value):
    """Mix 32 bits (MurmurHash3's finalizer, Appleby)."""
    value = u32(value)
    value = u32(value ^ (value >> u32(16)))
    value = u32(value * u32(0x85EBCA6B))
    value = u32(value ^ (value >> u32(13)))
    value = u32(value * u32(0xC2B2AE35))
    return u32(value ^ (value >> u32(16)))


@njit(inline="always")
def below(value, bound):
    """Map 32 random bits to [0, bound) (Lemire 2019, without the rejection: the bias is bound / 2^32)."""
    return np.int64((np.uint64(value) * np.uint64(bound)) >> np.uint64(32))


@njit(cache=True)
def permuted(ranks, size, total, key):
    """Write the first ``size`` numbers of a keyed random permutation of [0, total) into ``ranks``.

    Rounds of keyed multiply, add and xor-shift permute the next power of two; numbers outside [0, total) walk on
    (cycle walking, Black and Rogaway 2002). Every number is a function of its position alone, as on CUDA.
    """
    bits = 1
    while (1 << bits) < total:
        bits += 1
    domain = u32((1 << bits) - 1)
    shift = u32((bits + 1) // 2)

    factors = np.empty(PERMUTATION_ROUNDS, np.uint32)
    addends = np.empty(PERMUTATION_ROUNDS, np.uint32)
    state = u32(key)
    for r in range(PERMUTATION_ROUNDS):
        state = mix(u32(state + u32(0x9E3779B9)))
        factors[r] = u32(state | u32(1))
        addends[r] = u32(state >> u32(16))

    for k in range(size):
        ranks[k] = k
    for r in range(PERMUTATION_ROUNDS):
        factor, addend = factors[r], addends[r]
        for k in range(size):
            value = u32((u32(ranks[k]) * factor + addend) & domain)
            ranks[k] = np.int32(value ^ (value >> shift))

    for k in range(size):
        while ranks[k] >= total:
            value = u32(ranks[k])
            for r in range(PERMUTATION_ROUNDS):
                value = u32((value * factors[r] + addends[r]) & domain)
                value = u32(value ^ (value >> shift))
            ranks[k] = np.int32(value)


@njit(cache=True)
def strata(ranks, size, total, key):
    """Write one random rank from each of ``size`` equal shares of [0, total) into ``ranks``."""
    for k in range(size):
        lower = k * total // size
        upper = (k + 1) * total // size
        ranks[k] = lower + below(mix(u32(u32(key) ^ u32(u32(k) * u32(0x9E3779B9)))), upper - lower)


@njit(cache=True)
def _sample_one(env, images, key, is_grid, inside, found, pixels):
    """Choose the pixels of one environment's cloud from ``sample_clouds``'s images; return the number of valid ones."""
    depths, depth_strides, labels, label_strides, removed, sizes, matrices, centers, crop, near, far, order = images
    offset = 0
    for c in range(len(depths)):
        size = (sizes[c, 0], sizes[c, 1])
        depth = _image(depths, depth_strides, sizes, env, c)
        image = inside[offset : offset + depth.size]
        _mark(depth, size, matrices[env, c], _of_camera(centers, c), crop, near[c], far[c], image)
        if removed.size > 0:
            _remove(_image(labels, label_strides, sizes, env, c), removed[c], image)
        offset += depth.size

    total = 0
    for i in range(order.size):
        found[total] = order[i]
        total += inside[order[i]]

    # With too few pixels all are taken, and then repeated.
    num_points = pixels.size
    if total <= num_points:
        for k in range(num_points):
            pixels[k] = found[k % total] if total > 0 else 0
        return total

    if is_grid:
        strata(pixels, num_points, total, key)
    else:
        permuted(pixels, num_points, total, key)

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
    is_grid,
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

    for thread in prange(num_threads):
        inside = np.empty(total_pixels, np.uint8)
        # Pixels are written before it is known whether they count: one that does not, after all that do.
        found = np.empty(total_pixels + 1, np.int32)

        for env in range(thread * num_envs // num_threads, (thread + 1) * num_envs // num_threads):
            if not mask[env]:
                continue
            # Here, since a parallel loop takes no tuple of tuples from outside.
            images = (
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
            )
            total = _sample_one(env, images, u32(keys[env]), is_grid, inside, found, pixels[env])
            count[env] = min(total, num_points)
            if total > 0:
                _write_points(env, depths, depth_strides, sizes, matrices, centers, to_output, pixels[env], points[env])
            else:
                points[env] = f32(0.0)
