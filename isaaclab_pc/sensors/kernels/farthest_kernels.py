# SPDX-License-Identifier: BSD-3-Clause
"""Farthest-point sampling of given points, a block for each environment on CUDA and a thread on the CPU.

The greedy rule (Eldar et al. 1997), exactly; of equally far points the first one is picked.
"""

import warp as wp

from isaaclab_pc.sensors.kernels.pixel_kernels import block_bits, lower_bits

ALL_BITS = wp.constant(wp.uint32(0xFFFFFFFF))

# No kernel loops over the grid.
wp.set_module_options({"enable_backward": False, "default_grid_stride": False})


@wp.func
def squared_distance(a: wp.vec3f, b: wp.vec3f) -> wp.float32:
    d = a - b
    return d[0] * d[0] + d[1] * d[1] + d[2] * d[2]


@wp.func
def distance_and_place(distance: wp.float32, place: wp.int32) -> wp.uint64:
    """Pack a squared distance and a place so that the largest is the farthest, of equals the first place.

    Negative distances, of a lane that has nothing to pick, come last.
    """
    if distance < 0.0:
        return wp.uint64(0)
    return (wp.uint64(wp.cast(distance, wp.uint32)) << wp.uint64(32)) | wp.uint64(ALL_BITS - wp.uint32(place))


@wp.func
def farthest_place(distance: wp.float32, place: wp.int32) -> wp.int32:
    """Return the place of the block's largest distance. All threads of the block must call this."""
    farthest = wp.tile_extract(wp.tile_max(wp.tile(distance_and_place(distance, place))), 0)
    return wp.int32(ALL_BITS - wp.uint32(farthest))


@wp.kernel
def pick_farthest(
    points: wp.array2d(dtype=wp.vec3f),
    count: wp.array(dtype=wp.int32),
    distances: wp.array2d(dtype=wp.float32),
    picks: wp.array2d(dtype=wp.int32),
):
    """Pick among the first ``count`` of each environment's points, where they suffice; the first pick is given."""
    thread = wp.tid()
    env = thread >> block_bits()
    lane = lower_bits(thread, block_bits())
    lanes = 1 << block_bits()
    total = count[env]
    if total < picks.shape[1]:
        return

    for i in range(lane, total, lanes):
        distances[env, i] = wp.inf
    pick = picks[env, 0]
    for k in range(picks.shape[1]):
        if lane == 0:
            picks[env, k] = pick
        picked = points[env, pick]
        best = wp.float32(-1.0)
        best_place = wp.int32(0)
        for i in range(lane, total, lanes):
            distance = wp.min(distances[env, i], squared_distance(points[env, i], picked))
            if i == pick:
                distance = wp.float32(-1.0)
            distances[env, i] = distance
            if distance > best:
                best = distance
                best_place = i
        pick = farthest_place(best, best_place)
