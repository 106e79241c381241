# SPDX-License-Identifier: BSD-3-Clause
"""Shared by the cloud operator's Warp kernels: sets of pixels as bits, keyed draws, and points from depths.

The pixels of all cameras, in the order in which samplers count them, are slots, 32 to a word. Each camera starts a new
word, and the slots after its last pixel stay empty. A set of pixels has one bit a slot, and a prefix sum over the words
finds the slot of a rank. Points are computed again wherever they are needed: a depth is 4 bytes, a point 12.
"""

from typing import Any

import warp as wp

WARP_LANES = 32
"""Threads of a warp on CUDA, and slots of a word."""

BLOCK_LANES = 256
"""Threads of a block on CUDA: 2 to the ``block_bits`` of the kernels."""

PERMUTATION_ROUNDS = wp.constant(6)
GOLDEN = wp.constant(wp.uint32(0x9E3779B9))
MIX_1 = wp.constant(wp.uint32(0x85EBCA6B))
MIX_2 = wp.constant(wp.uint32(0xC2B2AE35))

Matrix = wp.types.matrix(shape=(3, 4), dtype=wp.float32)
Rounds = wp.types.vector(length=PERMUTATION_ROUNDS, dtype=wp.uint32)


def lanes_on(device: str) -> tuple[int, int]:
    """Return the threads of a block and of a warp on a device; on the CPU both are one."""
    return (BLOCK_LANES, WARP_LANES) if device.startswith("cuda") else (1, 1)


@wp.struct
class Camera:
    """The depth images of one camera."""

    images: wp.uint64
    """Address of the first environment's image."""
    stride: wp.uint64
    """Bytes from one environment's image to the next."""
    centers: wp.uint64
    """Address of where a pinhole would see what each pixel sees [px], (H, W, 2); 0: in the pixel's middle."""
    width: wp.int32
    num_pixels: wp.int32
    first_pixel: wp.int32
    """Pixels of the cameras before this one."""
    num_words: wp.int32
    first_word: wp.int32
    near: wp.float32
    far: wp.float32


@wp.struct
class Scene:
    """Constants of all environments."""

    cameras: wp.array(dtype=Camera)
    """Written on the device at every call, since the images may lie elsewhere."""
    order: wp.array(dtype=wp.int32)
    """Row << 16 | column of each slot's pixel in its camera's image, -1 where there is none: a division less."""
    crop_lower: wp.vec3f
    crop_upper: wp.vec3f


@wp.func_native("""
#if defined(__CUDA_ARCH__)
    return __popc(bits);
#else
    return __builtin_popcount(bits);
#endif
""")
def popcount(bits: wp.uint32) -> wp.int32: ...


@wp.func_native("""
#if defined(__CUDA_ARCH__)
    return 32 - __clz(number);
#else
    return 32 - __builtin_clz(number);
#endif
""")
def bit_length(number: wp.int32) -> wp.int32:
    """Return the number of bits of a positive number."""
    ...


@wp.func_native("""
#if defined(__CUDA_ARCH__)
    return 5;
#else
    return 0;
#endif
""")
def warp_bits() -> wp.int32:
    """Return the binary logarithm of the threads of a warp, which are one on the CPU."""
    ...


@wp.func_native("""
#if defined(__CUDA_ARCH__)
    return 8;
#else
    return 0;
#endif
""")
def block_bits() -> wp.int32:
    """Return the binary logarithm of the threads of a block, which are one on the CPU."""
    ...


@wp.func
def lower_bits(number: wp.int32, bits: wp.int32) -> wp.int32:
    return number & ((1 << bits) - 1)


@wp.func_native("""
#if defined(__CUDA_ARCH__)
    __syncthreads();
#endif
""")
def sync_block():
    """Wait for the other threads of the block, which must all call this."""
    ...


@wp.func
def mix(value: wp.uint32) -> wp.uint32:
    """Mix 32 bits (MurmurHash3's finalizer, Appleby)."""
    value = value ^ (value >> wp.uint32(16))
    value = value * MIX_1
    value = value ^ (value >> wp.uint32(13))
    value = value * MIX_2
    return value ^ (value >> wp.uint32(16))


@wp.func
def below(value: wp.uint32, bound: wp.int32) -> wp.int32:
    """Map 32 random bits to [0, bound)."""
    return wp.int32((wp.uint64(value) * wp.uint64(bound)) >> wp.uint64(32))


@wp.func
def permuted(position: wp.int32, total: wp.int32, key: wp.uint32) -> wp.int32:
    """Return one number of a keyed random permutation of [0, total), by cycle walking (Black and Rogaway 2002)."""
    bits = bit_length(wp.max(total - 1, 1))
    domain = wp.uint32((1 << bits) - 1)
    shift = wp.uint32((bits + 1) // 2)

    factors = Rounds()
    addends = Rounds()
    state = key
    for r in range(PERMUTATION_ROUNDS):
        state = mix(state + GOLDEN)
        factors[r] = state | wp.uint32(1)
        addends[r] = state >> wp.uint32(16)

    value = wp.uint32(position)
    outside = bool(True)
    while outside:
        for r in range(PERMUTATION_ROUNDS):
            value = (value * factors[r] + addends[r]) & domain
            value = value ^ (value >> shift)
        outside = value >= wp.uint32(total)
    return wp.int32(value)


@wp.func
def stratum(k: wp.int32, size: wp.int32, total: wp.int32, key: wp.uint32) -> wp.int32:
    """Return a random rank from the k-th of ``size`` equal shares of [0, total)."""
    lower = wp.int32(wp.int64(k) * wp.int64(total) / wp.int64(size))
    upper = wp.int32(wp.int64(k + 1) * wp.int64(total) / wp.int64(size))
    return lower + below(mix(key ^ (wp.uint32(k) * GOLDEN)), upper - lower)


@wp.func
def nth_bit(bits: wp.uint32, n: wp.int32) -> wp.int32:
    """Return the position of the n-th bit that is set, n counted from 0."""
    position = wp.int32(0)
    width = wp.int32(16)
    while width > 0:
        lower = popcount(bits & ((wp.uint32(1) << wp.uint32(width)) - wp.uint32(1)))
        if n >= lower:
            n -= lower
            bits = bits >> wp.uint32(width)
            position += width
        width = width // 2
    return position


@wp.func
def camera_of(slot: wp.int32, scene: Scene) -> wp.int32:
    camera = wp.int32(0)
    while slot // 32 >= scene.cameras[camera].first_word + scene.cameras[camera].num_words:
        camera += 1
    return camera


@wp.func
def pixel_of(at: wp.int32, width: wp.int32) -> wp.int32:
    """Return the index of a pixel in its image from what ``Scene.order`` says of it."""
    return (at >> 16) * width + (at & 0xFFFF)


# Warp's own reads of an array allow for negative indices, which takes three instructions more.
@wp.func_native("""
    return order.data[slot];
""")
def place_of(slot: wp.int32, order: wp.array(dtype=wp.int32)) -> wp.int32:
    """Return the element of ``Scene.order`` at a slot."""
    ...


@wp.func_native("""
    return reinterpret_cast<const float*>(image)[pixel];
""")
def depth_at(image: wp.uint64, pixel: wp.int32) -> wp.float32:
    """Return the depth at a pixel of the image at an address [m]."""
    ...


@wp.func
def image_of(camera: Camera, env: wp.int32) -> wp.uint64:
    """Return the address of an environment's image."""
    return camera.images + wp.uint64(env) * camera.stride


@wp.func
def depth_of(at: wp.int32, camera: Camera, env: wp.int32) -> wp.float32:
    """Return the depth at a pixel of one environment's image [m]."""
    return depth_at(image_of(camera, env), pixel_of(at, camera.width))


@wp.func_native("""
    const float* center = reinterpret_cast<const float*>(centers) + 2 * size_t(pixel);
    return wp::vec2f(center[0], center[1]);
""")
def center_at(centers: wp.uint64, pixel: wp.int32) -> wp.vec2f:
    """Return the element at a pixel of the table at an address [px]."""
    ...


@wp.func
def center_of(at: wp.int32, width: wp.int32, centers: wp.int32) -> wp.vec2f:
    """Return the middle of a pixel [px]: of a camera that is known to have no lens, ``centers`` has another type."""
    return wp.vec2f(wp.float32(at & 0xFFFF) + 0.5, wp.float32(at >> 16) + 0.5)


@wp.func
def center_of(at: wp.int32, width: wp.int32, centers: wp.uint64) -> wp.vec2f:  # noqa: F811
    """Return where a pinhole would see what a pixel sees [px]."""
    if centers != wp.uint64(0):
        return center_at(centers, pixel_of(at, width))
    return center_of(at, width, 0)


@wp.func
def unprojected(z: wp.float32, center: wp.vec2f, m: Matrix) -> wp.vec3f:
    """Return the point of a depth in the crop's frame [m]."""
    u = center[0]
    v = center[1]
    return wp.vec3f(
        z * (m[0, 1] * v + m[0, 2] + u * m[0, 0]) + m[0, 3],
        z * (m[1, 1] * v + m[1, 2] + u * m[1, 0]) + m[1, 3],
        z * (m[2, 1] * v + m[2, 2] + u * m[2, 0]) + m[2, 3],
    )


@wp.func
def point_at(at: wp.int32, camera: Camera, m: Matrix, env: wp.int32) -> wp.vec3f:
    """Return the point of a pixel of one environment's image in the crop's frame [m]."""
    return unprojected(depth_of(at, camera, env), center_of(at, camera.width, camera.centers), m)


@wp.func
def moved(p: wp.vec3f, m: Matrix) -> wp.vec3f:
    """Return a point in another frame [m]."""
    return wp.vec3f(
        m[0, 0] * p[0] + m[0, 1] * p[1] + m[0, 2] * p[2] + m[0, 3],
        m[1, 0] * p[0] + m[1, 1] * p[1] + m[1, 2] * p[2] + m[1, 3],
        m[2, 0] * p[0] + m[2, 1] * p[1] + m[2, 2] * p[2] + m[2, 3],
    )


@wp.func
def keep_point(env: wp.int32, k: wp.int32, kept: wp.array3d(dtype=Any), points: wp.array3d(dtype=Any)):
    """Write the last point of an environment that is not masked once more."""
    for axis in range(3):
        points[env, k, axis] = kept[env, k, axis]


@wp.func
def clear_point(
    env: wp.int32,
    k: wp.int32,
    kept: wp.array3d(dtype=Any),
    points: wp.array3d(dtype=Any),
    pixels: wp.array2d(dtype=wp.int32),
):
    """Write a point of an environment that has no valid pixel."""
    for axis in range(3):
        kept[env, k, axis] = kept.dtype(0.0)
        points[env, k, axis] = points.dtype(0.0)
    pixels[env, k] = 0


@wp.func
def write_point(
    env: wp.int32,
    k: wp.int32,
    slot: wp.int32,
    scene: Scene,
    matrices: wp.array2d(dtype=Matrix),
    to_output: wp.array(dtype=Matrix),
    kept: wp.array3d(dtype=Any),
    points: wp.array3d(dtype=Any),
    pixels: wp.array2d(dtype=wp.int32),
):
    """Write the k-th point of an environment, that of a slot, and its pixel."""
    index = camera_of(slot, scene)
    camera = scene.cameras[index]
    at = scene.order[slot]
    pixels[env, k] = camera.first_pixel + pixel_of(at, camera.width)
    p = point_at(at, camera, matrices[env, index], env)

    if to_output.shape[0] > 0:
        p = moved(p, to_output[env])
    for axis in range(3):
        kept[env, k, axis] = kept.dtype(p[axis])
        points[env, k, axis] = points.dtype(p[axis])
