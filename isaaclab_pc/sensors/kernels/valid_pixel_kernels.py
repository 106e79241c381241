# SPDX-License-Identifier: BSD-3-Clause
"""Which pixels are valid: on CUDA in blocks and warps of many lanes, on the CPU of one."""

from typing import Any

import warp as wp

from isaaclab_pc.sensors.kernels.pixel_kernels import (
    Camera,
    Matrix,
    Scene,
    center_of,
    depth_at,
    image_of,
    lower_bits,
    pixel_of,
    place_of,
    unprojected,
    warp_bits,
)

# A loop over the grid, which no launch of ours needs, would cost registers.
# Products are rounded before they are added, as on the CPU: otherwise points at the faces of the crop would fall on the
# other side.
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
    words: wp.array2d(dtype=wp.uint32),
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
            words[env, camera.first_word + word] = bits
        word += 1 << env_bits


MARK = {kind: wp.overload(mark, {"centers": kind}) for kind in (wp.int32, wp.uint64)}
"""Variants of :func:`mark`: of a pinhole, which needs a fifth fewer registers, and of a lens."""
