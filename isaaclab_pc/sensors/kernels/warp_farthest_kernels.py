# SPDX-License-Identifier: BSD-3-Clause
"""Farthest-point sampling on CUDA: the pixels of :func:`~isaaclab_pc.sensors.kernels.numba_sampler_kernels.farthest`.

The kernels take one block for each environment, follow the greedy rule (Eldar et al. 1997) exactly, and write the
ranks of the picks among the valid pixels. Of equally far points the first one is picked.
"""

import warp as wp

from isaaclab_pc.sensors.kernels.warp_base_kernels import (
    Bits,
    Matrix,
    Scene,
    below,
    block_bits,
    holds,
    lower_bits,
    mix,
    point_at,
    point_of,
    rank_of,
    slot_of,
    start_of,
)

POINTS_OF_LANE = 16
"""Points that a thread holds in registers, 4 registers each."""

ALL_BITS = wp.constant(wp.uint32(0xFFFFFFFF))

QUARTER = wp.constant(POINTS_OF_LANE // 4)

Distances = wp.types.vector(length=POINTS_OF_LANE, dtype=wp.float32)
Points = wp.types.matrix(shape=(POINTS_OF_LANE, 3), dtype=wp.float32)

# As in warp_kernels: products are rounded before they are added, as in numba, and no kernel loops over the grid.
wp.set_module_options({"enable_backward": False, "fuse_fp": False, "fast_math": False, "default_grid_stride": False})


@wp.struct
class Best:
    """The farthest point of those that a thread holds."""

    distance: wp.float32
    """Squared distance to the picks so far [m^2]."""
    held: wp.int32
    point: wp.vec3f


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
def pick_farthest_of_few(
    scene: Scene,
    matrices: wp.array2d(dtype=Matrix),
    keys: wp.array(dtype=wp.int32),
    mask: wp.array(dtype=wp.bool),
    valid: Bits,
    pixels: wp.array2d(dtype=wp.int32),
):
    """Pick in environments with valid points that fit into the registers of a block; leave out the others.

    The points are gathered once. Thread i holds those of ranks i, i + 256, i + 512 and so on.
    """
    thread = wp.tid()
    env = thread >> block_bits()
    lane = lower_bits(thread, block_bits())
    num_points = pixels.shape[1]
    total = valid.total[env]
    if not mask[env] or total <= num_points or total > POINTS_OF_LANE << block_bits():
        return

    points = Points()
    distances = Distances()
    for i in range(POINTS_OF_LANE):
        distances[i] = -1.0
    count = (total - lane + (1 << block_bits()) - 1) >> block_bits()
    for held in range(count):
        point = point_of(slot_of((held << block_bits()) + lane, valid, env), scene, matrices, env)
        # Only numbers that the compiler knows index registers.
        for i in range(POINTS_OF_LANE):
            if i == held:
                points[i] = point
                distances[i] = wp.inf

    pick = below(mix(wp.uint32(keys[env])), total)
    picked = point_of(slot_of(pick, valid, env), scene, matrices, env)
    for k in range(num_points):
        if lane == 0:
            pixels[env, k] = pick
        picked_here = wp.where(lower_bits(pick, block_bits()) == lane, pick >> block_bits(), -1)

        best = Best()
        best.distance = -1.0
        for quarter in range(4):
            if (quarter * QUARTER) << block_bits() < total:
                for j in range(QUARTER):
                    i = quarter * QUARTER + j
                    # Stays -1 where nothing is held, or was picked.
                    distance = wp.min(distances[i], squared_distance(points[i], picked))
                    if i == picked_here:
                        distance = wp.float32(-1.0)
                    distances[i] = distance
                    if distance > best.distance:
                        best.distance = distance
                        best.held = i
                        best.point = points[i]

        pick = farthest_place(best.distance, (best.held << block_bits()) + lane)
        candidate = best.point
        picked = wp.tile_extract(wp.tile(candidate, preserve_type=True), lower_bits(pick, block_bits()))


@wp.kernel
def pick_farthest_of_many(
    first_env: wp.int32,
    scene: Scene,
    matrices: wp.array2d(dtype=Matrix),
    keys: wp.array(dtype=wp.int32),
    mask: wp.array(dtype=wp.bool),
    valid: Bits,
    distances: wp.array2d(dtype=wp.float32),
    pixels: wp.array2d(dtype=wp.int32),
):
    """Pick in the environments from ``first_env`` on that :func:`pick_farthest_of_few` leaves out.

    One row of ``distances`` for each block. Points are computed again for every pick.
    """
    thread = wp.tid()
    row = thread >> block_bits()
    lane = lower_bits(thread, block_bits())
    lanes = 1 << block_bits()
    env = first_env + row
    num_points = pixels.shape[1]
    total = valid.total[env]
    if not mask[env] or total <= num_points or total <= POINTS_OF_LANE << block_bits():
        return

    # A lane takes the same slots here and below, so it reads only distances that it wrote.
    for slot in range(lane, scene.order.shape[0], lanes):
        distances[row, slot] = wp.where(holds(slot, valid, env), wp.inf, -1.0)

    pick = start_of(valid, env, wp.uint32(keys[env]))
    for k in range(num_points):
        if lane == 0:
            pixels[env, k] = rank_of(pick, valid, env)
        picked = point_of(pick, scene, matrices, env)

        best = wp.float32(-1.0)
        best_slot = wp.int32(0)
        begin = wp.int32(lane)
        for c in range(scene.cameras.shape[0]):
            camera = scene.cameras[c]
            matrix = matrices[env, c]
            end = (camera.first_word + camera.num_words) * 32
            for slot in range(begin, end, lanes):
                begin = slot + lanes
                distance = distances[row, slot]
                if distance >= 0.0:
                    at = scene.order[slot]
                    point = point_at(at, camera, matrix, env)
                    distance = wp.min(distance, squared_distance(point, picked))
                    if slot == pick:
                        distance = wp.float32(-1.0)
                    distances[row, slot] = distance
                    if distance > best:
                        best = distance
                        best_slot = slot

        pick = farthest_place(best, best_slot)


@wp.kernel
def pick_farthest_of_given(
    points: wp.array2d(dtype=wp.vec3f),
    count: wp.array(dtype=wp.int32),
    distances: wp.array2d(dtype=wp.float32),
    picks: wp.array2d(dtype=wp.int32),
):
    """Pick among the first ``count`` of each environment's points, from the first one on, where there are enough."""
    thread = wp.tid()
    env = thread >> block_bits()
    lane = lower_bits(thread, block_bits())
    lanes = 1 << block_bits()
    total = count[env]
    if total < picks.shape[1]:
        return

    for i in range(lane, total, lanes):
        distances[env, i] = wp.inf
    pick = wp.int32(0)
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
