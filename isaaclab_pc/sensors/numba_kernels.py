# SPDX-License-Identifier: BSD-3-Clause
"""The cloud operator on the CPU: one environment at a time, one thread for each share of the environments.

Vectorised by LLVM through numba. Scratch memory is that of one environment for each thread, whatever the number of
environments. :mod:`isaaclab_pc.sensors.warp_kernels` is the same algorithm for CUDA; both give the same pixels.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange

u32 = np.uint32
f32 = np.float32

PERMUTATION_ROUNDS = 6
TILE = 32
"""Points of one bucket of the farthest-point search."""

SAMPLERS = ("random", "grid", "voxel", "fps")
RANDOM, GRID, VOXEL, FPS = range(4)


@njit(inline="always")
def _hash(value):
    """Mix 32 bits (MurmurHash3's finalizer, Appleby)."""
    value = u32(value)
    value = u32(value ^ (value >> u32(16)))
    value = u32(value * u32(0x85EBCA6B))
    value = u32(value ^ (value >> u32(13)))
    value = u32(value * u32(0xC2B2AE35))
    return u32(value ^ (value >> u32(16)))


@njit(inline="always")
def _below(value, bound):
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
        state = _hash(u32(state + u32(0x9E3779B9)))
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
        ranks[k] = lower + _below(_hash(u32(u32(key) ^ u32(u32(k) * u32(0x9E3779B9)))), upper - lower)


@njit(cache=True)
def _mark(depth, size, matrix, crop, near, far, inside):
    """Tell which pixels of one image are inside the crop, (H * W,) uint8."""
    height, width = size
    ax, ay, az = matrix[0, 0], matrix[1, 0], matrix[2, 0]
    tx, ty, tz = matrix[0, 3], matrix[1, 3], matrix[2, 3]
    x0, y0, z0 = crop[0, 0], crop[0, 1], crop[0, 2]
    x1, y1, z1 = crop[1, 0], crop[1, 1], crop[1, 2]
    for v in range(height):
        fv = f32(v) + f32(0.5)
        rx = matrix[0, 1] * fv + matrix[0, 2]
        ry = matrix[1, 1] * fv + matrix[1, 2]
        rz = matrix[2, 1] * fv + matrix[2, 2]
        row = depth[v * width : (v + 1) * width]
        out = inside[v * width : (v + 1) * width]
        for u in range(width):
            fu = f32(u) + f32(0.5)
            z = row[u]
            x = z * (rx + fu * ax) + tx
            y = z * (ry + fu * ay) + ty
            w = z * (rz + fu * az) + tz
            out[u] = (z > near) & (z < far) & (x >= x0) & (x <= x1) & (y >= y0) & (y <= y1) & (w >= z0) & (w <= z1)


@njit(cache=True)
def _unproject(depth, size, matrix, points):
    """Write the points of all pixels of one image, valid or not, (3, H * W)."""
    height, width = size
    for axis in range(3):
        a, b, c, t = matrix[axis, 0], matrix[axis, 1], matrix[axis, 2], matrix[axis, 3]
        for v in range(height):
            ray = b * (f32(v) + f32(0.5)) + c
            row = depth[v * width : (v + 1) * width]
            out = points[axis, v * width : (v + 1) * width]
            for u in range(width):
                out[u] = row[u] * (ray + (f32(u) + f32(0.5)) * a) + t


@njit(cache=True)
def _number_voxels(depth, size, matrix, crop, voxel_size, voxels):
    """Write the number of the voxel of each pixel of one image, (H * W,) int32; of invalid pixels, any number."""
    height, width = size
    per_metre = f32(1.0) / voxel_size
    x0, y0, z0 = crop[0, 0], crop[0, 1], crop[0, 2]
    cells_y = np.int32((crop[1, 1] - y0) * per_metre) + np.int32(1)
    cells_z = np.int32((crop[1, 2] - z0) * per_metre) + np.int32(1)
    ax, ay, az = matrix[0, 0], matrix[1, 0], matrix[2, 0]
    tx, ty, tz = matrix[0, 3], matrix[1, 3], matrix[2, 3]
    for v in range(height):
        fv = f32(v) + f32(0.5)
        rx = matrix[0, 1] * fv + matrix[0, 2]
        ry = matrix[1, 1] * fv + matrix[1, 2]
        rz = matrix[2, 1] * fv + matrix[2, 2]
        row = depth[v * width : (v + 1) * width]
        out = voxels[v * width : (v + 1) * width]
        for u in range(width):
            fu = f32(u) + f32(0.5)
            z = row[u]
            x = np.int32((z * (rx + fu * ax) + tx - x0) * per_metre)
            y = np.int32((z * (ry + fu * ay) + ty - y0) * per_metre)
            w = np.int32((z * (rz + fu * az) + tz - z0) * per_metre)
            out[u] = np.int32(np.int32(np.int32(x * cells_y) + y) * cells_z) + w


@njit(cache=True)
def _first_of_voxels(found, voxels, start, scratch):
    """Bring the first pixel of every occupied voxel, in order from ``start`` round, to the front of ``found``.

    A hash table without probing and without clearing, as both cost mispredicted branches or time: all pixels write
    their place to the slot of their voxel, the last one first, so that the first one stays. Those that then find
    another voxel's pixel in their slot go on to the next round, with another hash; every round ends for at least one
    voxel of each slot.

    Args:
        found: Valid pixels, (M,) int32; on return those of the first pixels of voxels, then the others.
        voxels: Voxel of each pixel.
        start: Place in ``found`` to start from.
        scratch: Five buffers.

    Returns:
        The number of occupied voxels.
    """
    turned, keys, open_places, is_first, slots = scratch
    total = np.uintp(found.size)  # numba does not look for negative indices where they are unsigned.
    bits = 1
    while (1 << bits) < 2 * found.size:
        bits += 1
    shift = u32(32 - bits)
    turned[: found.size - start] = found[start:]
    turned[found.size - start : found.size] = found[:start]
    for place in range(total):
        keys[place] = voxels[np.uintp(turned[place])]
        open_places[place] = np.int32(place)
    factor = u32(0x9E3779B1)
    num_open = total
    while num_open > 0:
        for i in range(num_open):
            place = open_places[num_open - np.uintp(1) - i]
            slots[np.uintp(u32(keys[np.uintp(place)] * factor) >> shift)] = place
        still_open = np.uintp(0)
        for i in range(num_open):
            place = open_places[i]
            key = keys[np.uintp(place)]
            winner = slots[np.uintp(u32(key * factor) >> shift)]
            is_first[np.uintp(place)] = winner == place
            open_places[still_open] = place
            still_open += np.uintp(keys[np.uintp(winner)] != key)
        num_open = still_open
        factor = u32(u32(factor * u32(0x85EBCA6B)) + u32(2))
    occupied, filled = np.uintp(0), total
    for place in range(total):
        first = np.uintp(is_first[place])
        filled -= np.uintp(1) - first
        found[occupied if first else filled] = turned[place]
        occupied += first
    return np.int64(occupied)


@njit(fastmath={"nnan", "nsz"}, cache=True)
def farthest(points, start, picked):
    """Pick points by the greedy farthest-point rule (Eldar et al. 1997), exactly.

    Points that follow each other lie close together, so each run of :data:`TILE` of them has a small bounding box. A
    run is visited only if its box is nearer to the new pick than its own farthest point is to the picks so far; the
    picks are those of the plain algorithm, ties going to the lowest index (compare Han et al. 2023, QuickFPS).

    Args:
        points: x, y and z in rows [m], shape (3, M), float32.
        start: Index of the first pick.
        picked: Output, at most M indices, int32.
    """
    total = points.shape[1]
    num_tiles = (total + TILE - 1) // TILE
    xyz = np.empty((3, num_tiles * TILE), np.float32)
    distance = np.full(num_tiles * TILE, f32(-1.0), np.float32)
    lower = np.empty((3, num_tiles), np.float32)
    upper = np.empty((3, num_tiles), np.float32)
    for axis in range(3):
        xyz[axis, :total] = points[axis]
        xyz[axis, total:] = points[axis, total - 1]
        for t in range(num_tiles):
            lower[axis, t] = xyz[axis, t * TILE : (t + 1) * TILE].min()
            upper[axis, t] = xyz[axis, t * TILE : (t + 1) * TILE].max()
    distance[:total] = f32(np.inf)
    largest = np.full(num_tiles, f32(np.inf), np.float32)
    visit = np.empty(num_tiles, np.uint8)
    zero = f32(0.0)
    index = start
    for k in range(picked.size):
        picked[k] = index
        x, y, z = xyz[0, index], xyz[1, index], xyz[2, index]
        distance[index] = f32(-1.0)
        for t in range(num_tiles):
            dx = max(max(lower[0, t] - x, x - upper[0, t]), zero)
            dy = max(max(lower[1, t] - y, y - upper[1, t]), zero)
            dz = max(max(lower[2, t] - z, z - upper[2, t]), zero)
            visit[t] = dx * dx + dy * dy + dz * dz < largest[t]
        visit[index // TILE] = 1
        for t in range(num_tiles):
            if visit[t]:
                tile = distance[t * TILE : (t + 1) * TILE]
                tx = xyz[0, t * TILE : (t + 1) * TILE]
                ty = xyz[1, t * TILE : (t + 1) * TILE]
                tz = xyz[2, t * TILE : (t + 1) * TILE]
                best = f32(-1.0)
                for i in range(TILE):
                    dx, dy, dz = tx[i] - x, ty[i] - y, tz[i] - z
                    nearest = min(tile[i], dx * dx + dy * dy + dz * dz)
                    tile[i] = nearest
                    best = max(best, nearest)
                largest[t] = best
        best = f32(-1.0)
        for t in range(num_tiles):
            best = max(best, largest[t])
        t = 0
        while t < num_tiles - 1 and largest[t] != best:
            t += 1
        index = t * TILE
        while index < total - 1 and distance[index] != best:
            index += 1


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
        image = inside[offset : offset + depth.size]
        _mark(depth, size, matrices[env, c], crop, near[c], far[c], image)
        if sampler == VOXEL:
            numbers = voxels[offset : offset + depth.size]
            _number_voxels(depth, size, matrices[env, c], crop, voxel_size, numbers)
        elif sampler == FPS:
            _unproject(depth, size, matrices[env, c], points[:, offset : offset + depth.size])
        if removed.size > 0:
            classes = _image(labels, label_strides, sizes, env, c)
            dropped = removed[c]
            for i in range(depth.size):
                label = classes[i]
                if 0 <= label < dropped.size and dropped[label]:
                    image[i] = 0
        offset += depth.size

    total = 0
    for i in range(order.size):
        found[total] = order[i]
        total += inside[order[i]]
    found = found[:total]

    num_points = pixels.size
    if total <= num_points:
        for k in range(num_points):
            pixels[k] = found[k % total] if total > 0 else 0
        return total
    start = _below(_hash(key), total)
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
            occupied = _first_of_voxels(found, voxels, start, voxel_scratch)
            permuted(pixels, min(occupied, num_points), occupied, key)
            if occupied < num_points:
                rest = pixels[occupied:]
                permuted(rest, rest.size, total - occupied, key)
                rest += np.int32(occupied)
    for k in range(num_points):
        pixels[k] = found[pixels[k]]
    return total


@njit(error_model="numpy", cache=True)  # Without a check for division by zero: an image has columns.
def _write_points(env, depths, depth_strides, sizes, matrices, to_output, pixels, points):
    """Unproject the chosen pixels of one environment."""
    offset = 0
    for c in range(len(depths)):
        depth = _image(depths, depth_strides, sizes, env, c)
        m = matrices[env, c]
        width = u32(sizes[c, 1])
        for k in range(pixels.size):
            pixel = u32(pixels[k] - offset)  # Pixels of the cameras before wrap round, to large numbers.
            if pixel < depth.size:
                v = u32(pixel // width)
                u = u32(pixel - v * width)
                fu, fv = f32(np.int32(u)) + f32(0.5), f32(np.int32(v)) + f32(0.5)
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
    """Fill ``points``, ``pixels`` and ``count`` of the masked environments.

    Args:
        depths: Depth images of each camera [m], each flat, float32.
        depth_strides: From one environment's image to the next, per camera [px].
        labels: Semantic ids of the same pixels, int32; not read where ``removed`` is empty.
        label_strides: As ``depth_strides``.
        removed: True at the ids to drop, per camera, shape (C, number of ids), bool; empty to keep all.
        sizes: H and W of each camera, shape (C, 2), int64.
        matrices: From (z u, z v, z, 1) to the crop's frame, shape (N, C, 3, 4), float32.
        to_output: From the crop's frame to the output frame, shape (N, 3, 4), float32; empty where it is the same.
        crop: Lower and upper corner [m], shape (2, 3), float32.
        near: Depth that a valid pixel exceeds, per camera [m], float32.
        far: Depth that a valid pixel stays below, per camera [m], float32.
        order: All P pixels of all cameras, camera by camera, neighbours close together, shape (P,), int32.
        keys: Keys of the draws, shape (N,), int32.
        mask: Environments to do, shape (N,), bool.
        sampler: RANDOM, GRID, VOXEL or FPS.
        voxel_size: Edge of a voxel [m], float32.
        num_threads: Shares of the environments that run side by side.
        points: Output [m], shape (N, K, 3), float32.
        pixels: Output, numbered through all cameras, shape (N, K), int32.
        count: Output, shape (N,), int32.
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
            np.empty(total_pixels, np.int32),
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
                _write_points(env, depths, depth_strides, sizes, matrices, to_output, pixels[env], points[env])
            else:
                points[env] = f32(0.0)
