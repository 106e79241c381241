# SPDX-License-Identifier: BSD-3-Clause
"""Pixels that only large noise carries into the crop, such as those of a table's top below it.

Of many such pixels few give a point. All of a box with faces along the world's axes is behind the plane of a face,
so a sum of the pixel's three normal numbers must be large enough to lift it into the crop. Only as many pixels are
drawn as have such a sum, and their numbers are drawn from the tail of its distribution.
"""

import warp as wp

from isaaclab_pc.sensors.kernels.newton_ray_kernels import BOX
from isaaclab_pc.sensors.kernels.pixel_kernels import unprojected
from isaaclab_pc.sensors.kernels.ray_scene_kernels import Scene, pinhole_of
from isaaclab_pc.sensors.realism.kernels import (
    DISPARITY_STEP,
    MAX_ANGLE_RATIO,
    MAX_INCIDENCE,
    MODEL,
    NO_NOISE,
    NOISE,
    QUANTIZATION,
    STEREO,
    STRUCTURED_LIGHT,
    Errors,
    angle_ratio,
    focal_length_of,
    lateral_std,
    stereo_product,
    structured_light_std,
)

NO_TAIL = wp.constant(-10.0)
SLACK = wp.constant(1.0e-4)
"""Added to a reading by rounding, and by noise that differs between neighbouring pixels, at most [m]."""


@wp.struct
class Tail:
    """The noise that may lift a pixel into the crop: numbers with a large enough component along a direction."""

    direction: wp.vec3f
    """Of the numbers (across, down, axial), of length 1."""
    least: wp.float32
    rises: wp.bool
    """Whether the crop's coordinate grows along the pixel's line."""


@wp.func
def steepest_ratio(leaf: wp.int32, index: wp.int32, env: wp.int32, scene: Scene) -> wp.float32:
    """Return the largest :func:`angle_ratio` of what a leaf shows a camera, and of its faces that are not too steep."""
    size = scene.shapes.uppers[leaf] - scene.shapes.lowers[leaf]
    shape = wp.int32(scene.shapes.of_leaf[leaf])
    half = scene.shapes.scales[shape]
    if scene.shapes.types[shape] != BOX or size[0] * size[1] * size[2] > 8.08 * half[0] * half[1] * half[2]:
        return MAX_ANGLE_RATIO

    pose = scene.cameras[index].poses[0, env]
    eye = wp.transform_get_translation(pose)
    forward = wp.transform_vector(pose, wp.vec3f(0.0, 0.0, -1.0))
    ratio = float(0.0)
    for face in range(3):
        theta = wp.acos(wp.min(wp.abs(forward[face]), 1.0))
        if eye[face] > scene.shapes.lowers[leaf][face] and eye[face] < scene.shapes.uppers[leaf][face]:
            continue
        if theta <= scene.parameters[env, index][MAX_INCIDENCE]:
            ratio = wp.max(ratio, angle_ratio(theta))
    return ratio


@wp.func
def tail_of(
    row: wp.float32,
    column: wp.float32,
    pair: wp.int32,
    ratio: wp.float32,
    leaf: wp.int32,
    index: wp.int32,
    env: wp.int32,
    scene: Scene,
) -> Tail:
    """Return the tail of a pixel from the plane of a leaf's face to a face of the crop.

    ``pair``: three times the world's axis across the leaf's face, and the crop's axis across the crop's.
    """
    face = pair // 3
    axis = pair % 3
    tail = Tail()
    tail.least = NO_TAIL
    camera = scene.cameras[index]
    m = scene.matrices[env, index]
    k = pinhole_of(camera, env)
    pose = camera.poses[0, env]
    rotation = wp.quat_to_matrix(wp.transform_get_rotation(pose))
    eye = wp.transform_get_translation(pose)[face]
    lower = scene.shapes.lowers[leaf][face]
    upper = scene.shapes.uppers[leaf][face]
    # Per metre of depth.
    along = rotation[face, 0] * (column + 0.5 - k[2]) / k[0] - rotation[face, 1] * (row + 0.5 - k[3]) / k[1]
    along -= rotation[face, 2]
    ahead = wp.where(eye > upper, upper, lower) - eye
    center = wp.vec2f(column + 0.5, row + 0.5)
    start = unprojected(0.0, center, m)[axis]
    step = unprojected(1.0, center, m)[axis] - start
    tail.rises = step > 0.0
    if (eye >= lower and eye <= upper) or ahead * along <= 1.0e-6 or wp.abs(step) < 1.0e-6:
        return tail

    depth = ahead / along
    p = scene.parameters[env, index]
    last = (wp.where(tail.rises, scene.crop_upper[axis], scene.crop_lower[axis]) - start) / step
    last += 0.5 * p[QUANTIZATION] + SLACK
    if last <= 0.0 or depth <= last:
        tail.least = wp.where(last <= 0.0, -NO_TAIL, NO_TAIL)
        return tail

    # Change of depth [m/px].
    slope = wp.vec2f(rotation[face, 0] / k[0], -rotation[face, 1] / k[1]) * (-depth / along)
    lateral = lateral_std(ratio, p) / focal_length_of(k, p)
    axial = p[NOISE]
    missing = depth - last
    if p[MODEL] == NO_NOISE:
        axial = float(0.0)
    if p[MODEL] == STRUCTURED_LIGHT:
        axial *= structured_light_std(depth, ratio)
    if p[MODEL] == STEREO:
        # In disparity, which is linear in the pixel.
        product = stereo_product(k, p)
        slope *= product / (depth * depth)
        missing = product / last - product / depth - 0.5 * p[DISPARITY_STEP]
        axial = -axial
    missing -= 0.5 * (wp.abs(slope[0]) + wp.abs(slope[1]))
    weights = wp.vec3f(-slope[0] * lateral * k[0], -slope[1] * lateral * k[1], -axial)
    std = wp.max(wp.length(weights), 1.0e-9)
    tail.direction = weights / std
    tail.least = missing / std
    return tail


@wp.func
def tail_of_rectangle(
    r: wp.vec4i, pairs: wp.vec2i, ratio: wp.float32, leaf: wp.int32, index: wp.int32, env: wp.int32, scene: Scene
) -> wp.vec2f:
    """Return where the tails of all pixels of a rectangle begin, and the pair of faces that shows it best.

    Of the pairs from the first of ``pairs`` up to the second.
    """
    best = wp.vec2f(NO_TAIL, 0.0)
    if scene.cameras[index].centers.shape[0] > 0:
        # A lens bends the planes.
        return best
    for pair in range(pairs[0], pairs[1]):
        least = float(-NO_TAIL)
        rising = wp.int32(0)
        for corner in range(4):
            # No worse corner makes up for this one.
            if least > best[0]:
                column = wp.where((corner & 1) > 0, float(r[1]), float(r[0]))
                row = wp.where((corner & 2) > 0, float(r[3]), float(r[2]))
                tail = tail_of(row, column, pair, ratio, leaf, index, env, scene)
                least = wp.min(least, tail.least)
                rising += wp.int32(tail.rises)
        # Lines that leave the crop by opposite faces say nothing of those between them, which leave it by neither.
        if least > best[0] and (rising == 0 or rising == 4):
            best = wp.vec2f(least, float(pair))
    return best


@wp.func
def share_of_tail(least: wp.float32) -> wp.float32:
    """Return the probability of a normal number above ``least``."""
    return 0.5 * wp.erfc(least * wp.sqrt(0.5))


@wp.func
def drawn_from_tail(errors: Errors, tail: Tail, least: wp.float32, state: wp.uint32) -> Errors:
    """Return errors with normal numbers that lie beyond ``least`` along the tail's direction.

    Dropped where that is not far enough for the pixel's own tail.
    """
    numbers = wp.vec3f(errors.across, errors.down, errors.axial)
    share = (wp.randf(state) + 1.0e-7) * share_of_tail(least)
    beyond = wp.sqrt(2.0) * wp.erfcinv(2.0 * share)
    numbers += tail.direction * (beyond - wp.dot(numbers, tail.direction))
    errors.across = numbers[0]
    errors.down = numbers[1]
    errors.axial = numbers[2]
    if beyond < tail.least:
        errors.is_dropped = True
    # Surfaces beside it have pixels of their own.
    errors.flies = False
    return errors
