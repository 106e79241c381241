# SPDX-License-Identifier: BSD-3-Clause
"""The samplers ``random`` and ``grid``: from bits to points in one kernel, a block for each environment on CUDA.

Each thread counts the members of its share of an environment's words, the block adds up these counts, and a rank is
looked up first among the threads, in shared memory, and then in one thread's words.
"""

from typing import Any

import warp as wp

from isaaclab_pc.sensors.kernels.pixel_kernels import (
    BLOCK_LANES,
    Matrix,
    Scene,
    block_bits,
    clear_point,
    keep_point,
    lower_bits,
    nth_bit,
    permuted,
    popcount,
    stratum,
    sync_block,
    write_point,
)

# As in valid_pixel_kernels: products are rounded before they are added, and no kernel loops over the grid.
wp.set_module_options({"enable_backward": False, "fuse_fp": False, "fast_math": False, "default_grid_stride": False})


@wp.func_native(f"""
#if defined(__CUDA_ARCH__)
    __shared__ int numbers[{BLOCK_LANES + 1}];
#else
    static int numbers[{BLOCK_LANES + 1}];
#endif
    if (writes)
        numbers[index] = number;
    return numbers[index];
""")
def shared_number(index: wp.int32, number: wp.int32, writes: wp.bool) -> wp.int32:
    """Return one of the numbers that the threads of a block share, one for each and one more; write it first, if asked.

    What others have written is seen after :func:`sync_block`.
    """
    ...


@wp.func
def members_before(index: wp.int32) -> wp.int32:
    """Return how many members are in the shares of the threads before one; of all, for the number of threads."""
    return shared_number(index, 0, False)


@wp.func
def share_members(lane: wp.int32, first: wp.int32, end: wp.int32, env: wp.int32, words: wp.array2d(dtype=wp.uint32)):
    """Count the members in a thread's share of the words, and let all threads know :func:`members_before`."""
    ones = wp.int32(0)
    for word in range(first, end):
        ones += popcount(words[env, word])
    through = wp.untile(wp.tile_scan_inclusive(wp.tile(ones)))
    shared_number(lane, through - ones, True)
    if lane == (1 << block_bits()) - 1:
        shared_number(lane + 1, through, True)
    sync_block()


@wp.func
def slot_in_shares(rank: wp.int32, share: wp.int32, env: wp.int32, words: wp.array2d(dtype=wp.uint32)) -> wp.int32:
    """Return the slot of the member of the given rank, for shares of so many words."""
    lower = wp.int32(0)
    upper = 1 << block_bits()
    while upper - lower > 1:
        middle = (lower + upper) // 2
        if members_before(middle) <= rank:
            lower = middle
        else:
            upper = middle

    rank -= members_before(lower)
    word = lower * share
    bits = words[env, word]
    ones = popcount(bits)
    while rank >= ones:
        rank -= ones
        word += 1
        bits = words[env, word]
        ones = popcount(bits)
    return word * 32 + nth_bit(bits, rank)


@wp.kernel
def sample(
    scene: Scene,
    matrices: wp.array2d(dtype=Matrix),
    to_output: wp.array(dtype=Matrix),
    keys: wp.array(dtype=wp.int32),
    mask: wp.array(dtype=wp.bool),
    words: wp.array2d(dtype=wp.uint32),
    is_random: wp.bool,
    kept: wp.array3d(dtype=Any),
    points: wp.array3d(dtype=Any),
    pixels: wp.array2d(dtype=wp.int32),
    count: wp.array(dtype=wp.int32),
):
    """Write the points of ``random`` or ``grid`` and their pixels; ``words`` has the bits of the valid pixels.

    ``kept`` holds the last points of the environments that are not masked, and is updated.
    """
    thread = wp.tid()
    env = thread >> block_bits()
    lane = lower_bits(thread, block_bits())
    lanes = 1 << block_bits()
    num_points = pixels.shape[1]
    if not mask[env]:
        for k in range(lane, num_points, lanes):
            keep_point(env, k, kept, points)
        return

    num_words = words.shape[1]
    share = (num_words + lanes - 1) >> block_bits()
    share_members(lane, lane * share, wp.min(lane * share + share, num_words), env, words)
    total = members_before(lanes)
    if lane == 0:
        count[env] = wp.min(total, num_points)

    key = wp.uint32(keys[env])
    for k in range(lane, num_points, lanes):
        if total == 0:
            clear_point(env, k, kept, points, pixels)
        else:
            rank = wp.int32(0)
            if total <= num_points:
                rank = k % total
            elif is_random:
                rank = permuted(k, total, key)
            else:
                rank = stratum(k, num_points, total, key)
            write_point(
                env, k, slot_in_shares(rank, share, env, words), scene, matrices, to_output, kept, points, pixels
            )


SAMPLE = {
    dtype: wp.overload(sample, {"kept": wp.array3d(dtype=dtype), "points": wp.array3d(dtype=dtype)})
    for dtype in (wp.float16, wp.float32)
}
"""Variants of :func:`sample` by the type of the points. Named here, so that no launch compiles the module again."""
