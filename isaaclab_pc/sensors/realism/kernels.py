# SPDX-License-Identifier: BSD-3-Clause
"""Warp kernel of the depth camera's errors: the same code on the CPU and on CUDA, for images and for single rays."""

from typing import Any

import warp as wp

from isaaclab_pc.sensors.kernels.pixel_kernels import lower_bits, warp_bits

# Values of MODEL.
NO_NOISE = wp.constant(0.0)
GAUSSIAN = wp.constant(1.0)
STRUCTURED_LIGHT = wp.constant(2.0)
STEREO = wp.constant(3.0)

# Columns of an environment's parameters. NOISE is std [m], scale [-] or the std of disparity [px], as MODEL says;
# FOCAL_LENGTH [px] is that of disparity and lateral noise, 0 the rendered image's; EDGE_THRESHOLD [m] is the difference
# in depth from which two neighbouring pixels make an edge. A step of 0 does not round.
NOISE = wp.constant(0)
LATERAL = wp.constant(1)
BASELINE = wp.constant(2)
FLYING_PIXELS = wp.constant(3)
MIN_RANGE = wp.constant(4)
MAX_RANGE = wp.constant(5)
DROPOUT = wp.constant(6)
SHADOW_BASELINE = wp.constant(7)
MAX_INCIDENCE = wp.constant(8)
MODEL = wp.constant(9)
FOCAL_LENGTH = wp.constant(10)
DISPARITY_STEP = wp.constant(11)
QUANTIZATION = wp.constant(12)
EDGE_THRESHOLD = wp.constant(13)
NUM_COLUMNS = 14
Parameters = wp.types.vector(length=NUM_COLUMNS, dtype=wp.float32)


@wp.struct
class Camera:
    """Constants of all environments."""

    index: wp.int32
    """Which camera of its cloud it is."""
    height: wp.int32
    width: wp.int32
    far: wp.float32
    """Depth from which a pixel is a miss [m]."""
    first_pixel: wp.int32
    """Number of pixels of the cameras before this one, so that no two cameras share random numbers."""


@wp.struct
class Errors:
    """Random numbers of one pixel."""

    flies: wp.bool
    """Whether it reads a mixture, where it is at an edge."""
    share: wp.float32
    """Share of the other surface in that mixture."""
    is_dropped: wp.bool
    across: wp.float32
    """Standard normal number of the shift along the row, as ``down`` and ``axial`` are."""
    down: wp.float32
    axial: wp.float32


MAX_ANGLE_RATIO = wp.constant(8.0)
"""theta / (pi/2 - theta) at 80 degrees: the published formulas have a pole at 90."""


@wp.func
def normal(bits: wp.uint32) -> wp.float32:
    """Turn 32 random bits into a standard normal number, |x| < 5.3.

    The inverse of the normal distribution, algorithm AS 241, PPND7 (Wichura 1988), to 7 digits. It takes no logarithm
    for 85 % of the numbers: on a CPU it costs less than half of Warp's Box-Muller or of erfinv.
    """
    # 23 bits and a half are exact in float32, so neither 0 nor 1 is reached and the tails are symmetric.
    q = (wp.float32(bits >> wp.uint32(9)) + 0.5) * wp.static(2.0**-23) - 0.5
    r = 0.180625 - q * q
    if r >= 0.0:
        numerator = ((59.109374720 * r + 159.29113202) * r + 50.434271938) * r + 3.3871327179
        return q * numerator / (((67.187563600 * r + 78.757757664) * r + 17.895169469) * r + 1.0)
    r = wp.sqrt(-wp.log(0.5 - wp.abs(q))) - 1.6
    numerator = ((0.17023821103 * r + 1.3067284816) * r + 2.7568153900) * r + 1.4234372777
    return wp.sign(q) * numerator / ((0.12021132975 * r + 0.73700164250) * r + 1.0)


@wp.func
def read(depth: wp.array3d(dtype=wp.float32), env: int, v: int, u: int, camera: Camera) -> wp.float32:
    """Read a depth; 0 for a miss and outside the image."""
    if v < 0 or u < 0 or v >= camera.height or u >= camera.width:
        return 0.0
    z = depth[env, v, u]
    # Written so that NaN is a miss.
    if z > 0.0 and z < camera.far:
        return z
    return 0.0


@wp.func
def slope(z: float, before: float, after: float) -> wp.float32:
    """Return the slope [m/px] of the surface that a pixel lies on: at an edge, the side that is not the step."""
    backward = z - before
    forward = after - z
    if before <= 0.0:
        backward = forward
    if after <= 0.0:
        forward = backward
    if before <= 0.0 and after <= 0.0:
        return 0.0
    if wp.abs(backward) < wp.abs(forward):
        return backward
    return forward


@wp.func
def farther(z: float, other: float, best: float) -> wp.float32:
    """Return which of two neighbours differs more from ``z``; a miss differs from nothing."""
    if other > 0.0 and wp.abs(other - z) > wp.abs(best - z):
        return other
    return best


@wp.func
def incidence_in_image(
    depth: wp.array3d(dtype=wp.float32), env: int, v: int, u: int, z: float, k: wp.vec4f, camera: Camera
) -> wp.float32:
    """Return the angle between optical axis and normal [rad] from the depth of a pixel's neighbours."""
    du = slope(z, read(depth, env, v, u - 1, camera), read(depth, env, v, u + 1, camera))
    dv = slope(z, read(depth, env, v - 1, u, camera), read(depth, env, v + 1, u, camera))
    across = wp.sqrt(k[0] * du * k[0] * du + k[1] * dv * k[1] * dv)
    return wp.atan(across / wp.abs(z + (float(u) + 0.5 - k[2]) * du + (float(v) + 0.5 - k[3]) * dv))


@wp.func
def angle_ratio(theta: float) -> wp.float32:
    """Return theta / (pi/2 - theta) of an angle of incidence [rad]."""
    return wp.min(theta / wp.max(wp.HALF_PI - theta, 1.0e-6), MAX_ANGLE_RATIO)


@wp.func
def focal_length_of(k: wp.vec4f, p: Parameters) -> wp.float32:
    """Return the focal length that the noise is told for [px]."""
    return wp.where(p[FOCAL_LENGTH] > 0.0, p[FOCAL_LENGTH], k[0])


@wp.func
def stereo_product(k: wp.vec4f, p: Parameters) -> wp.float32:
    """Return depth times disparity [px m]."""
    return focal_length_of(k, p) * p[BASELINE]


@wp.func
def structured_light_std(z: float, ratio: float) -> wp.float32:
    """Return the published standard deviation of depth [m]."""
    return 0.0012 + 0.0019 * (z - 0.4) * (z - 0.4) + 0.0001 / wp.sqrt(z) * ratio * ratio


@wp.func
def lateral_std(ratio: float, p: Parameters) -> wp.float32:
    """Return the standard deviation of where a pixel looks [px of the real camera]."""
    if p[MODEL] == STRUCTURED_LIGHT:
        return p[NOISE] * (0.8 + 0.035 * ratio)
    return p[LATERAL]


@wp.func
def axial_noise(z: float, noise: float, ratio: float, k: wp.vec4f, p: Parameters) -> wp.float32:
    """Return depth with axial noise; ``noise`` is a standard normal number times the environment's NOISE."""
    if p[MODEL] == GAUSSIAN:
        return z + noise
    if p[MODEL] == STRUCTURED_LIGHT:
        return z + noise * structured_light_std(z, ratio)
    product = stereo_product(k, p)
    disparity = product / z + noise
    if p[DISPARITY_STEP] > 0.0:
        disparity = p[DISPARITY_STEP] * wp.rint(disparity / p[DISPARITY_STEP])
    return product / disparity


@wp.func
def draw_errors(key: int, pixel: int, p: Parameters, camera: Camera) -> Errors:
    """Draw the numbers of a pixel of a camera, before anything is known of what it sees."""
    state = wp.rand_init(key, camera.first_pixel + pixel)
    errors = Errors()
    if p[FLYING_PIXELS] > 0.0:
        errors.flies = wp.randf(state) < p[FLYING_PIXELS]
        errors.share = wp.randf(state)
    if p[DROPOUT] > 0.0:
        errors.is_dropped = wp.randf(state) < p[DROPOUT]
    if p[MODEL] == STRUCTURED_LIGHT or p[LATERAL] > 0.0:
        errors.across = normal(wp.randu(state))
        errors.down = normal(wp.randu(state))
    if p[MODEL] != NO_NOISE:
        errors.axial = normal(wp.randu(state))
    return errors


@wp.func
def looks_at(v: int, u: int, ratio: float, k: wp.vec4f, p: Parameters, camera: Camera, errors: Errors) -> wp.vec2i:
    """Return row and column of the pixel that a pixel reads in its place; ``ratio`` is that of :func:`angle_ratio`."""
    lateral = lateral_std(ratio, p) / focal_length_of(k, p)
    row = v + int(wp.rint(lateral * k[1] * errors.down))
    column = u + int(wp.rint(lateral * k[0] * errors.across))
    return wp.vec2i(wp.clamp(row, 0, camera.height - 1), wp.clamp(column, 0, camera.width - 1))


@wp.func
def mixes(source: Any, env: int, v: int, u: int, seen: float, camera: Camera, errors: Errors) -> wp.bool:
    return True


def make_corrupt_pixel(read: Any, may_mix: Any = mixes) -> wp.Function:
    """Return a function that turns the true depth of a pixel, ``z``, into what a real camera reads, 0 for a miss.

    It takes the depth ``seen`` of the pixel that :func:`looks_at` tells, the surface's ``ratio`` of
    :func:`angle_ratio`, and ``k`` as (fx, fy, cx, cy). ``read(source, env, row, column, camera)`` tells the depth of
    another pixel [m], 0 for a miss; ``may_mix(source, env, row, column, seen, camera, errors)`` whether its neighbours
    are read, where it flies.
    """

    @wp.func
    def corrupt_pixel(
        source: Any,
        env: int,
        v: int,
        u: int,
        z: float,
        seen: float,
        ratio: float,
        k: wp.vec4f,
        p: Parameters,
        camera: Camera,
        errors: Errors,
    ) -> wp.float32:
        if seen <= 0.0:
            return 0.0
        mixed = float(seen)
        flies = errors.flies
        if flies:
            flies = may_mix(source, env, v, u, seen, camera, errors)
        if flies:
            other = float(z)
            side = wp.int32(0)
            # Not unrolled, since reading may be a ray.
            while side < 4:
                along = 2 * (side % 2) - 1
                across = wp.where(side < 2, along, 0)
                other = farther(z, read(source, env, v + along - across, u + across, camera), other)
                side += 1
            if wp.abs(other - seen) > p[EDGE_THRESHOLD]:
                mixed += errors.share * (other - seen)
        z = mixed
        if p[MODEL] != NO_NOISE:
            z = axial_noise(z, p[NOISE] * errors.axial, ratio, k, p)
        if p[QUANTIZATION] > 0.0:
            z = p[QUANTIZATION] * wp.rint(z / p[QUANTIZATION])
        if z > 0.0 and z >= p[MIN_RANGE] and z <= p[MAX_RANGE] and z < wp.INF:
            return z
        return 0.0

    return corrupt_pixel


corrupt_pixel = make_corrupt_pixel(read)


# Four blocks of 256 threads a multiprocessor: with the registers that the compiler would take, only three would fit. A
# loop over the grid, which no launch of ours needs, would cost some more.
@wp.kernel(enable_backward=False, grid_stride=False, launch_bounds=(256, 4))
def corrupt_depth(
    depth: wp.array3d(dtype=wp.float32),
    intrinsics: wp.array3d(dtype=wp.float32),
    keys: wp.array(dtype=wp.int32),
    mask: wp.array(dtype=wp.bool),
    parameters: wp.array(dtype=Parameters),
    camera: Camera,
    env_bits: wp.int32,
    labels: wp.array3d(dtype=wp.int32),
    corrupted: wp.array3d(dtype=wp.float32),
    read_labels: wp.array3d(dtype=wp.int32),
) -> None:
    """Write what a real camera would have read, and of what; a mask without elements writes all environments.

    ``labels`` without elements are not read. 2 ** ``env_bits`` warps for each environment, of which each takes every so
    many-th row.
    """
    # The numbers of an environment and of its threads are cut out of the thread's: a division takes 64 bits and longer.
    thread = wp.tid()
    warp = thread >> warp_bits()
    env = warp >> env_bits
    # Warp evaluates both sides of `and`, and without a mask the inner read is out of bounds.
    if mask.shape[0] > 0:  # noqa: SIM102
        if not mask[env]:
            return

    key = keys[env]
    p = parameters[env]
    k = wp.vec4f(intrinsics[env, 0, 0], intrinsics[env, 1, 1], intrinsics[env, 0, 2], intrinsics[env, 1, 2])

    v = lower_bits(warp, env_bits)
    while v < depth.shape[1]:
        u = lower_bits(thread, warp_bits())
        while u < depth.shape[2]:
            z = read(depth, env, v, u, camera)
            if z > 0.0:
                theta = float(0.0)
                if p[MODEL] == STRUCTURED_LIGHT or p[MAX_INCIDENCE] < wp.HALF_PI:
                    theta = incidence_in_image(depth, env, v, u, z, k, camera)
                errors = draw_errors(key, v * camera.width + u, p, camera)
                ratio = angle_ratio(theta)
                at = looks_at(v, u, ratio, k, p, camera, errors)
                if labels.shape[0] > 0:
                    read_labels[env, v, u] = labels[env, at[0], at[1]]
                seen = read(depth, env, at[0], at[1], camera)
                if errors.is_dropped or theta > p[MAX_INCIDENCE]:
                    seen = float(0.0)
                z = corrupt_pixel(depth, env, v, u, z, seen, ratio, k, p, camera, errors)
            corrupted[env, v, u] = z
            u += 1 << warp_bits()
        v += 1 << env_bits
