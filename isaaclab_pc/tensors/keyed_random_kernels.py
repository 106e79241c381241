# SPDX-License-Identifier: BSD-3-Clause
"""Warp kernels of the keyed random numbers: the finalizer of SplitMix64, once for each part of a key."""

import warp as wp

GOLDEN_GAMMA = wp.constant(wp.uint64(0x9E3779B97F4A7C15))
MIX_1 = wp.constant(wp.uint64(0xBF58476D1CE4E5B9))
MIX_2 = wp.constant(wp.uint64(0x94D049BB133111EB))

wp.set_module_options({"enable_backward": False, "default_grid_stride": False})


@wp.func
def mixed(hash: wp.uint64, part: wp.int64) -> wp.uint64:
    value = hash + wp.uint64(part) + GOLDEN_GAMMA
    value = (value ^ (value >> wp.uint64(30))) * MIX_1
    value = (value ^ (value >> wp.uint64(27))) * MIX_2
    return value ^ (value >> wp.uint64(31))


@wp.func
def hash_of_env(seed: wp.int64, env: wp.int64) -> wp.uint64:
    # Mixed before the environment is added: otherwise seed 3, environment 1 and seed 4, environment 0 would be one key.
    return mixed(mixed(wp.uint64(0), seed), env)


@wp.kernel
def hash_keys(
    seed: wp.int64,
    env_ids: wp.array(dtype=wp.int64),
    stream: wp.int64,
    first: wp.array(dtype=wp.int64),
    second: wp.array(dtype=wp.int64),
    hashes: wp.array(dtype=wp.int64),
):
    """Hash (seed, environment, stream, first, second); a part without elements is left out."""
    row = wp.tid()
    value = mixed(hash_of_env(seed, env_ids[row]), stream)
    if first.shape[0] > 0:
        value = mixed(value, first[row])
    if second.shape[0] > 0:
        value = mixed(value, second[row])
    hashes[row] = wp.int64(value)


@wp.kernel
def draw_uniform(
    seed: wp.int64,
    env_ids: wp.array(dtype=wp.int64),
    episode: wp.array(dtype=wp.int64),
    stream: wp.int64,
    numbers: wp.array2d(dtype=wp.float32),
):
    """Draw from [0, 1), one thread for each environment."""
    row = wp.tid()
    key = mixed(mixed(hash_of_env(seed, env_ids[row]), episode[row]), stream)
    for column in range(numbers.shape[1]):
        bits = mixed(key, wp.int64(column)) >> wp.uint64(40)
        numbers[row, column] = wp.float32(bits) * wp.static(2.0**-24)
