# SPDX-License-Identifier: BSD-3-Clause
"""The samplers on the CPU: which pixels of one environment are taken.

Compiled into :func:`isaaclab_pc.sensors.kernels.numba_kernels.sample_clouds`. Numba's cache looks at the file of that
function only: save it as well after a change here.
"""

import numpy as np
from numba import njit

u32 = np.uint32
f32 = np.float32

PERMUTATION_ROUNDS = 6
TILE = 32
"""Points of one bucket of the farthest-point search."""


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
def of_rank(rank, inside):
    """Return the pixel inside the crop that has ``rank`` other ones before it."""
    pixel = 0
    ones = 0
    while ones <= rank:  # Whole tiles first, since the inner loop vectorises.
        rank -= ones
        ones = 0
        for value in inside[pixel : pixel + TILE]:
            ones += value
        pixel += TILE

    pixel -= TILE + 1
    while rank >= 0:
        pixel += 1
        rank -= inside[pixel]
    return pixel


@njit(cache=True)
def first_of_voxels(voxels, inside, start, num_points, found, scratch):
    """Find the first pixel of every occupied voxel, going through the pixels from ``start`` and around.

    Pixels side by side often lie in the same voxel, so only the first pixel of each run (its head) is looked up in a
    hash table. The table is neither probed, which costs mispredicted branches, nor cleared, which costs time. Instead,
    all heads write their place to the slot of their voxel, the last head first, so that the first one stays. Heads that
    then find another voxel's head in their slot go on to the next round, with another hash. Every round settles at
    least one voxel of each slot.

    Args:
        voxels: Voxel of each pixel, (P,) int32; -1 of those outside the crop.
        inside: 1 at the pixels inside the crop, (P,) uint8; cleared at those that are found.
        start: Pixel to start from.
        num_points: Pixels that the caller reads.
        found: Output, (P + 1,) int32: the first pixels; where they are fewer than ``num_points``, the other pixels
            inside the crop follow, from the last one backwards. What comes after them is undefined.
        scratch: Five buffers.

    Returns:
        The number of occupied voxels.
    """
    heads, keys, open_places, is_first, slots = scratch
    size = np.uintp(voxels.size)  # Unsigned, since numba then leaves out the check for negative indices.

    num_heads = np.uintp(0)
    for lower, upper in ((np.uintp(start), size), (np.uintp(0), np.uintp(start))):
        previous = np.int32(-1)
        for pixel in range(lower, upper):
            key = voxels[pixel]
            heads[num_heads] = pixel
            keys[num_heads] = key
            num_heads += np.uintp((key != previous) & (key >= 0))
            previous = key

    bits = 1
    while (1 << bits) < 2 * num_heads:
        bits += 1
    shift = u32(32 - bits)

    for place in range(num_heads):
        open_places[place] = np.int32(place)
    num_open = num_heads
    factor = u32(0x9E3779B1)
    while num_open > 0:
        for i in range(num_open):
            place = open_places[num_open - np.uintp(1) - i]
            slots[np.uintp(u32(u32(keys[np.uintp(place)]) * factor) >> shift)] = place
        still_open = np.uintp(0)
        for i in range(num_open):
            place = open_places[i]
            key = keys[np.uintp(place)]
            winner = slots[np.uintp(u32(u32(key) * factor) >> shift)]
            is_first[np.uintp(place)] = winner == place
            open_places[still_open] = place
            still_open += np.uintp(keys[np.uintp(winner)] != key)
        num_open = still_open
        factor = u32(u32(factor * u32(0x85EBCA6B)) + u32(2))

    occupied = np.uintp(0)
    for place in range(num_heads):
        found[occupied] = heads[place]
        occupied += np.uintp(is_first[place])

    if occupied < num_points:
        for i in range(occupied):
            inside[np.uintp(found[i])] = 0
        last = occupied
        for lower, upper in ((np.uintp(0), np.uintp(start)), (np.uintp(start), size)):
            for i in range(upper - lower):
                pixel = upper - np.uintp(1) - i
                found[last] = np.int32(pixel)
                last += np.uintp(inside[pixel])
    return np.int64(occupied)


@njit(fastmath={"nnan", "nsz"}, cache=True)
def farthest(points, start, picked):
    """Pick points by the greedy farthest-point rule (Eldar et al. 1997), exactly.

    Points that follow each other lie close together, so each run of :data:`TILE` of them has a small bounding box. A
    run is visited only if its box is nearer to the new pick than its own farthest point is to the picks so far; the
    picks are those of the plain algorithm, ties going to the lowest index (compare Han et al. 2023, QuickFPS).

    ``points`` are x, y and z in rows [m], (3, M), float32; ``start`` is the first pick's index; at most M indices,
    int32, are written to ``picked``.
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
