# SPDX-License-Identifier: BSD-3-Clause
"""The cloud operator in Warp, for CUDA: :mod:`isaaclab_pc.sensors.numba_kernels`, one thread for each environment."""

import warp as wp

PERMUTATION_ROUNDS = wp.constant(6)
RANDOM = wp.constant(0)
GRID = wp.constant(1)
VOXEL = wp.constant(2)

Matrix = wp.types.matrix(shape=(3, 4), dtype=wp.float32)


@wp.func
def mix(value: wp.uint32) -> wp.uint32:
    """Mix 32 bits (MurmurHash3's finalizer, Appleby)."""
    h = value ^ (value >> wp.uint32(16))
    h = h * wp.uint32(0x85EBCA6B)
    h = h ^ (h >> wp.uint32(13))
    h = h * wp.uint32(0xC2B2AE35)
    return h ^ (h >> wp.uint32(16))


@wp.func
def below(value: wp.uint32, bound: wp.int32) -> wp.int32:
    return wp.int32((wp.uint64(value) * wp.uint64(bound)) >> wp.uint64(32))


@wp.func
def permuted(rank: wp.int32, total: wp.int32, key: wp.uint32) -> wp.int32:
    """Return one number of a keyed random permutation of [0, total), by cycle walking (Black and Rogaway 2002)."""
    bits = wp.int32(1)
    while (1 << bits) < total:
        bits += 1
    domain = wp.uint32((1 << bits) - 1)
    shift = wp.uint32((bits + 1) // 2)
    value = wp.uint32(rank)
    inside = wp.bool(False)
    while not inside:
        state = wp.uint32(key)
        for _ in range(PERMUTATION_ROUNDS):
            state = mix(state + wp.uint32(0x9E3779B9))
            value = (value * (state | wp.uint32(1)) + (state >> wp.uint32(16))) & domain
            value = value ^ (value >> shift)
        inside = wp.int32(value) < total
    return wp.int32(value)


@wp.func
def stratum(k: wp.int32, size: wp.int32, total: wp.int32, key: wp.uint32) -> wp.int32:
    lower = wp.int32(wp.int64(k) * wp.int64(total) / wp.int64(size))
    upper = wp.int32(wp.int64(k + 1) * wp.int64(total) / wp.int64(size))
    return lower + below(mix(key ^ (wp.uint32(k) * wp.uint32(0x9E3779B9))), upper - lower)


@wp.func
def unproject(depth: wp.float32, u: wp.int32, v: wp.int32, m: Matrix) -> wp.vec3f:
    fu = float(u) + 0.5
    fv = float(v) + 0.5
    return wp.vec3f(
        depth * (m[0, 1] * fv + m[0, 2] + fu * m[0, 0]) + m[0, 3],
        depth * (m[1, 1] * fv + m[1, 2] + fu * m[1, 0]) + m[1, 3],
        depth * (m[2, 1] * fv + m[2, 2] + fu * m[2, 0]) + m[2, 3],
    )


@wp.kernel(enable_backward=False)
def mark(
    depth: wp.array3d(dtype=wp.float32),
    labels: wp.array3d(dtype=wp.int32),
    removed: wp.array(dtype=wp.bool),
    matrices: wp.array2d(dtype=Matrix),
    mask: wp.array(dtype=wp.bool),
    crop_lower: wp.vec3f,
    crop_upper: wp.vec3f,
    near: wp.float32,
    far: wp.float32,
    camera: wp.int32,
    offset: wp.int32,
    points: wp.array2d(dtype=wp.vec3f),
    inside: wp.array2d(dtype=wp.bool),
) -> None:
    """Note which pixels of one camera are valid, one thread a pixel; where ``points`` is not empty, fill it too."""
    env, v, u = wp.tid()
    if not mask[env]:
        return
    z = depth[env, v, u]
    p = unproject(z, u, v, matrices[env, camera])
    keep = z > near and z < far
    keep = keep and p[0] >= crop_lower[0] and p[1] >= crop_lower[1] and p[2] >= crop_lower[2]
    keep = keep and p[0] <= crop_upper[0] and p[1] <= crop_upper[1] and p[2] <= crop_upper[2]
    if keep and removed.shape[0] > 0:
        label = labels[env, v, u]
        # Warp evaluates both sides of `and`, and this read may be out of bounds.
        if label >= 0 and label < removed.shape[0]:  # noqa: SIM102
            if removed[label]:
                keep = False
    pixel = offset + v * depth.shape[2] + u
    inside[env, pixel] = keep
    if points.shape[1] > 0:
        points[env, pixel] = p


@wp.kernel(enable_backward=False)
def choose(
    inside: wp.array2d(dtype=wp.bool),
    order: wp.array(dtype=wp.int32),
    keys: wp.array(dtype=wp.int32),
    mask: wp.array(dtype=wp.bool),
    sampler: wp.int32,
    points: wp.array2d(dtype=wp.vec3f),
    crop_lower: wp.vec3f,
    crop_upper: wp.vec3f,
    voxel_size: wp.float32,
    found: wp.array2d(dtype=wp.int32),
    moved: wp.array2d(dtype=wp.int32),
    table: wp.array2d(dtype=wp.int32),
    distance: wp.array2d(dtype=wp.float32),
    pixels: wp.array2d(dtype=wp.int32),
    count: wp.array(dtype=wp.int32),
) -> None:
    """Choose the pixels of one environment's cloud."""
    env = wp.tid()
    if not mask[env]:
        return
    num_points = pixels.shape[1]
    total = wp.int32(0)
    for i in range(order.shape[0]):
        if inside[env, order[i]]:
            found[env, total] = order[i]
            total += 1
    count[env] = wp.min(total, num_points)
    if total <= num_points:
        for k in range(num_points):
            pixel = wp.int32(0)
            if total > 0:
                pixel = found[env, k % total]
            pixels[env, k] = pixel
        return
    key = wp.uint32(keys[env])
    start = below(mix(key), total)
    if sampler == RANDOM:
        for k in range(num_points):
            pixels[env, k] = found[env, permuted(k, total, key)]
    elif sampler == GRID:
        for k in range(num_points):
            pixels[env, k] = found[env, stratum(k, num_points, total, key)]
    elif sampler == VOXEL:
        per_metre = 1.0 / voxel_size
        cells_y = wp.int32((crop_upper[1] - crop_lower[1]) * per_metre) + 1
        cells_z = wp.int32((crop_upper[2] - crop_lower[2]) * per_metre) + 1
        slots = table.shape[1]
        for i in range(slots):
            table[env, i] = -1
        occupied = wp.int32(0)
        filled = wp.int32(total)
        for step in range(total):
            i = start + step
            if i >= total:
                i -= total
            p = points[env, found[env, i]]
            x = wp.int32((p[0] - crop_lower[0]) * per_metre)
            y = wp.int32((p[1] - crop_lower[1]) * per_metre)
            z = wp.int32((p[2] - crop_lower[2]) * per_metre)
            voxel = (x * cells_y + y) * cells_z + z
            slot = below(wp.uint32(voxel) * wp.uint32(0x9E3779B1), slots)
            while table[env, slot] != voxel and table[env, slot] != -1:
                slot = (slot + 1) % slots
            if table[env, slot] == -1:
                table[env, slot] = voxel
                moved[env, occupied] = found[env, i]
                occupied += 1
            else:
                filled -= 1
                moved[env, filled] = found[env, i]
        for k in range(num_points):
            if k < occupied:
                pixels[env, k] = moved[env, permuted(k, occupied, key)]
            else:
                pixels[env, k] = moved[env, occupied + permuted(k - occupied, total - occupied, key)]
    else:
        for i in range(total):
            distance[env, i] = wp.inf
        index = wp.int32(start)
        for k in range(num_points):
            pixels[env, k] = found[env, index]
            q = points[env, found[env, index]]
            distance[env, index] = -1.0
            best = wp.float32(-1.0)
            for i in range(total):
                p = points[env, found[env, i]]
                dx = p[0] - q[0]
                dy = p[1] - q[1]
                dz = p[2] - q[2]
                nearest = wp.min(distance[env, i], dx * dx + dy * dy + dz * dz)
                distance[env, i] = nearest
                if nearest > best:
                    best = nearest
                    index = i


@wp.kernel(enable_backward=False)
def emit(
    depth: wp.array3d(dtype=wp.float32),
    matrices: wp.array2d(dtype=Matrix),
    to_output: wp.array(dtype=Matrix),
    mask: wp.array(dtype=wp.bool),
    camera: wp.int32,
    offset: wp.int32,
    pixels: wp.array2d(dtype=wp.int32),
    count: wp.array(dtype=wp.int32),
    points: wp.array2d(dtype=wp.vec3f),
) -> None:
    """Write the points that one camera saw, in the output frame, one thread a point."""
    env, k = wp.tid()
    if not mask[env]:
        return
    if count[env] == 0:
        points[env, k] = wp.vec3f(0.0)
        return
    width = depth.shape[2]
    local = pixels[env, k] - offset
    if local < 0 or local >= depth.shape[1] * width:
        return
    v = local / width
    u = local - v * width
    p = unproject(depth[env, v, u], u, v, matrices[env, camera])
    if to_output.shape[0] > 0:
        m = to_output[env]
        p = m @ wp.vec4f(p[0], p[1], p[2], 1.0)
    points[env, k] = p
