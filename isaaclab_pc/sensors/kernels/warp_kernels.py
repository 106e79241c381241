# SPDX-License-Identifier: BSD-3-Clause
"""The cloud operator on CUDA: the algorithms and pixels of :mod:`isaaclab_pc.sensors.kernels.numba_kernels`.

The same code runs on the CPU, with blocks and warps of one lane, which is for tests.
"""

from typing import Any

import warp as wp

from isaaclab_pc.sensors.kernels.warp_base_kernels import (
    Bits,
    Camera,
    Matrix,
    Scene,
    below,
    block_bits,
    center_of,
    clear_point,
    depth_at,
    holds,
    image_of,
    keep_point,
    lower_bits,
    mix,
    permuted,
    pixel_of,
    place_of,
    point_of,
    popcount,
    rank_of,
    slot_of,
    slot_of_rest,
    start_of,
    unprojected,
    warp_bits,
    write_point,
)

FREE = wp.constant(-1)
"""An empty place of the table of voxels."""

# A loop over the grid, which no launch of ours needs, would cost registers.
# Products are rounded before they are added, as in numba: otherwise points at the faces of the crop or of voxels would
# fall on the other side.
wp.set_module_options({"enable_backward": False, "fuse_fp": False, "fast_math": False, "default_grid_stride": False})


@wp.func_native("""
#if defined(__CUDA_ARCH__)
    return __ballot_sync(0xffffffffu, value);
#else
    return bits | (wp::uint32(value) << bit);
#endif
""")
def with_bit(bits: wp.uint32, bit: wp.int32, value: wp.bool) -> wp.uint32:
    """Return a word to which a bit is added; on CUDA the bits of all 32 lanes of a warp, which must call this."""
    ...


@wp.func
def is_removed(label: wp.int32, removed: wp.array2d(dtype=wp.bool), camera: wp.int32) -> wp.bool:
    if label < 0 or label >= removed.shape[1]:
        return False
    return removed[camera, label]


@wp.func
def is_valid(
    at: wp.int32,
    env: wp.int32,
    index: wp.int32,
    camera: Camera,
    image: wp.uint64,
    centers: Any,
    matrix: Matrix,
    labels: wp.array3d(dtype=wp.int32),
    removed: wp.array2d(dtype=wp.bool),
    lower: wp.vec3f,
    upper: wp.vec3f,
) -> wp.bool:
    """Return whether a pixel of an environment's image has a point in the crop that no class removes."""
    if at < 0:
        return False
    z = depth_at(image, pixel_of(at, camera.width))
    p = unprojected(z, center_of(at, camera.width, centers), matrix)
    inside = z > camera.near and z < camera.far
    inside = inside and p[0] >= lower[0] and p[1] >= lower[1] and p[2] >= lower[2]
    inside = inside and p[0] <= upper[0] and p[1] <= upper[1] and p[2] <= upper[2]
    # One after the other: joined by `and`, they would take five instructions more for every pixel.
    if removed.shape[1] > 0:  # noqa: SIM102
        if inside:
            inside = not is_removed(labels[env, at >> 16, at & 0xFFFF], removed, index)
    return inside


@wp.kernel
def mark(
    index: wp.int32,
    camera: Camera,
    centers: Any,
    labels: wp.array3d(dtype=wp.int32),
    removed: wp.array2d(dtype=wp.bool),
    env_bits: wp.int32,
    scene: Scene,
    matrices: wp.array2d(dtype=Matrix),
    mask: wp.array(dtype=wp.bool),
    valid: Bits,
):
    """Set the bits of one camera's valid pixels.

    2 ** ``env_bits`` warps for each environment, of which each takes every so many-th word.
    """
    # The numbers of an environment and of its threads are cut out of the thread's: a division takes 64 bits and longer.
    thread = wp.tid()
    if thread == 0:
        scene.cameras[index] = camera
    lane = lower_bits(thread, warp_bits())
    warp = thread >> warp_bits()
    env = warp >> env_bits
    if not mask[env]:
        return

    lower = scene.crop_lower
    upper = scene.crop_upper
    matrix = matrices[env, index]
    image = image_of(camera, env)
    word = lower_bits(warp, env_bits)
    while word < camera.num_words:
        bits = wp.uint32(0)
        for bit in range(lane, 32, 1 << warp_bits()):
            at = place_of((camera.first_word + word) * 32 + bit, scene.order)
            inside = is_valid(at, env, index, camera, image, centers, matrix, labels, removed, lower, upper)
            bits = with_bit(bits, bit, inside)

        if lane == 0:
            valid.words[env, camera.first_word + word] = bits
        word += 1 << env_bits


MARK = {kind: wp.overload(mark, {"centers": kind}) for kind in (wp.int32, wp.uint64)}
"""Variants of :func:`mark`: of a pinhole, which needs a fifth fewer registers, and of a lens."""


@wp.kernel
def count_bits(bits: Bits):
    """Fill ``before`` and ``total``, one block for each environment."""
    thread = wp.tid()
    env = thread >> block_bits()
    lane = lower_bits(thread, block_bits())
    num_words = bits.words.shape[1]
    total = wp.int32(0)
    for first in range(0, num_words, 1 << block_bits()):
        word = first + lane
        ones = wp.int32(0)
        if word < num_words:
            ones = popcount(bits.words[env, word])
        of_lanes = wp.tile(ones)
        through = wp.untile(wp.tile_scan_inclusive(of_lanes))
        if word < num_words:
            bits.before[env, word] = total + through - ones
        total += wp.tile_extract(wp.tile_sum(of_lanes), 0)
    if lane == 0:
        bits.total[env] = total


@wp.func
def voxel_of(slot: wp.int32, scene: Scene, matrices: wp.array2d(dtype=Matrix), env: wp.int32) -> wp.int32:
    p = (point_of(slot, scene, matrices, env) - scene.crop_lower) * scene.voxels_per_metre
    return (wp.int32(p[0]) * scene.voxels_y + wp.int32(p[1])) * scene.voxels_z + wp.int32(p[2])


@wp.func
def slot_after(start: wp.int32, steps: wp.int32, num_slots: wp.int32) -> wp.int32:
    slot = start + steps
    return wp.where(slot >= num_slots, slot - num_slots, slot)


@wp.kernel
def enter_voxels(
    first_env: wp.int32,
    scene: Scene,
    matrices: wp.array2d(dtype=Matrix),
    keys: wp.array(dtype=wp.int32),
    mask: wp.array(dtype=wp.bool),
    valid: Bits,
    num_points: wp.int32,
    table: wp.array2d(dtype=wp.int32),
):
    """Write the first valid pixel of every occupied voxel into a hash table, counted from a random start and around.

    One thread for each slot of the environments from ``first_env`` on, one row of ``table`` for each environment. An
    entry is the least number of slots from the start to a pixel of its voxel. Which place a voxel gets depends on which
    thread comes first; the entry does not.
    """
    row, slot = wp.tid()
    env = first_env + row
    total = valid.total[env]
    if not mask[env] or total <= num_points:
        return
    if not holds(slot, valid, env):
        return

    num_slots = scene.order.shape[0]
    start = start_of(valid, env, wp.uint32(keys[env]))
    steps = wp.where(slot >= start, slot - start, slot - start + num_slots)
    voxel = voxel_of(slot, scene, matrices, env)

    place = below(mix(wp.uint32(voxel)), table.shape[1])
    other = wp.atomic_cas(table, row, place, FREE, steps)
    searching = bool(other != FREE)
    while searching:
        # A place never passes to another voxel.
        if voxel_of(slot_after(start, other, num_slots), scene, matrices, env) == voxel:
            wp.atomic_min(table, row, place, steps)
            searching = False
        else:
            place = wp.where(place + 1 == table.shape[1], 0, place + 1)
            other = wp.atomic_cas(table, row, place, FREE, steps)
            searching = other != FREE


@wp.kernel
def collect_voxels(
    first_env: wp.int32,
    num_slots: wp.int32,
    keys: wp.array(dtype=wp.int32),
    valid: Bits,
    table: wp.array2d(dtype=wp.int32),
    first: Bits,
):
    """Set the bit of every pixel in ``table`` and empty the table, one thread for each place."""
    row, place = wp.tid()
    env = first_env + row
    steps = table[row, place]
    if steps == FREE:
        return
    table[row, place] = FREE
    slot = slot_after(start_of(valid, env, wp.uint32(keys[env])), steps, num_slots)
    wp.atomic_or(first.words, env, slot // 32, wp.uint32(1) << wp.uint32(slot % 32))


@wp.func
def voxel_slot(k: wp.int32, key: wp.uint32, env: wp.int32, valid: Bits, first: Bits) -> wp.int32:
    """Return the slot of the k-th point: one from each voxel at random, then the other pixels at random.

    Both are numbered in numba's order: the first pixels of voxels from the start and around, the others backwards.
    """
    start = start_of(valid, env, key)
    occupied = first.total[env]
    first_before = rank_of(start, first, env)
    if k < occupied:
        rank = permuted(k, occupied, key) + first_before
        return slot_of(wp.where(rank >= occupied, rank - occupied, rank), first, env)

    others = valid.total[env] - occupied
    rank = others - 1 - permuted(k - occupied, others, key) + rank_of(start, valid, env) - first_before
    return slot_of_rest(wp.where(rank >= others, rank - others, rank), valid, first, env)


@wp.kernel
def emit(
    scene: Scene,
    matrices: wp.array2d(dtype=Matrix),
    to_output: wp.array(dtype=Matrix),
    keys: wp.array(dtype=wp.int32),
    mask: wp.array(dtype=wp.bool),
    valid: Bits,
    is_voxel: wp.bool,
    first: Bits,
    env_bits: wp.int32,
    kept: wp.array3d(dtype=Any),
    points: wp.array3d(dtype=Any),
    pixels: wp.array2d(dtype=wp.int32),
    count: wp.array(dtype=wp.int32),
):
    """Write one point of ``voxel`` or ``fps`` and its pixel a thread, 2 ** ``env_bits`` threads for each environment.

    ``kept`` holds the last points of the environments that are not masked, and is updated. For ``fps`` ``pixels`` holds
    the ranks of the picks.
    """
    thread = wp.tid()
    env = thread >> env_bits
    k = lower_bits(thread, env_bits)
    num_points = pixels.shape[1]
    if k >= num_points:
        return
    if not mask[env]:
        keep_point(env, k, kept, points)
        return

    total = valid.total[env]
    if k == 0:
        count[env] = wp.min(total, num_points)
    if total == 0:
        clear_point(env, k, kept, points, pixels)
        return

    slot = wp.int32(0)
    if is_voxel and total > num_points:
        slot = voxel_slot(k, wp.uint32(keys[env]), env, valid, first)
    else:
        rank = k
        if total > num_points:
            rank = pixels[env, k]
        slot = slot_of(rank % total, valid, env)
    write_point(env, k, slot, scene, matrices, to_output, kept, points, pixels)


EMIT = {
    dtype: wp.overload(emit, {"kept": wp.array3d(dtype=dtype), "points": wp.array3d(dtype=dtype)})
    for dtype in (wp.float16, wp.float32)
}
"""Variants of :func:`emit` by the type of the points. Named here, so that no launch compiles the module again."""
