# SPDX-License-Identifier: BSD-3-Clause
"""A camera's errors on single rays: which pixels may give a point at all, before any ray is cast.

Errors move points into the crop from outside. As the numbers of a pixel are drawn before it is looked at, they tell how
far: the boxes around the shapes, moved by as much, must meet its line within the crop.
"""

import warp as wp

from isaaclab_pc.sensors.kernels.pixel_kernels import Matrix, unprojected
from isaaclab_pc.sensors.kernels.ray_scene_kernels import (
    Scene,
    center_of_pixel,
    image_rectangle,
    leaf_rectangle,
    pinhole_of,
    world_ray,
)
from isaaclab_pc.sensors.realism.kernels import (
    DISPARITY_STEP,
    GAUSSIAN,
    MAX_ANGLE_RATIO,
    MAX_RANGE,
    MIN_RANGE,
    MODEL,
    NOISE,
    QUANTIZATION,
    STEREO,
    STRUCTURED_LIGHT,
    Errors,
    Parameters,
    focal_length_of,
    lateral_std,
    looks_at,
    stereo_product,
    structured_light_std,
)
from isaaclab_pc.sensors.realism.kernels import Camera as ErrorCamera

LARGEST_NORMAL = wp.constant(5.3)
"""Of the normal numbers that are drawn."""


@wp.func
def crop_depths(center: wp.vec2f, m: Matrix, scene: Scene) -> wp.vec2f:
    """Return the depths at which a pixel's line is within the crop [m]; the first is larger where it never is."""
    start = unprojected(0.0, center, m)
    step = unprojected(1.0, center, m) - start
    first = float(0.0)
    last = float(wp.inf)
    for axis in range(3):
        if wp.abs(step[axis]) > 1.0e-9:
            a = (scene.crop_lower[axis] - start[axis]) / step[axis]
            b = (scene.crop_upper[axis] - start[axis]) / step[axis]
            first = wp.max(first, wp.min(a, b))
            last = wp.min(last, wp.max(a, b))
        elif start[axis] < scene.crop_lower[axis] or start[axis] > scene.crop_upper[axis]:
            last = float(-1.0)
    return wp.vec2f(first, last)


@wp.func
def true_depths(read: wp.vec2f, noise: float, k: wp.vec4f, p: Parameters) -> wp.vec2f:
    """Return bounds of the true depths [m] that come to lie between two depths by the ``noise`` of ``axial_noise``."""
    half = p[QUANTIZATION] * 0.5 + 1.0e-5
    nearest = wp.max(read[0] - half, 1.0e-3)
    # Not infinity, for a crop without a limit: what is multiplied with it may be 0.
    farthest = wp.min(read[1] + half, 1.0e3)
    if p[MODEL] == GAUSSIAN:
        return wp.vec2f(nearest - noise, farthest - noise)
    if p[MODEL] == STRUCTURED_LIGHT:
        # The depth is not known yet, but the noise moves it by less than this.
        lower = wp.max(nearest - 0.1, 0.1)
        std = wp.max(
            structured_light_std(lower, MAX_ANGLE_RATIO), structured_light_std(farthest + 0.1, MAX_ANGLE_RATIO)
        )
        return wp.vec2f(nearest - wp.max(noise, 0.0) * std, farthest - wp.min(noise, 0.0) * std)
    if p[MODEL] == STEREO:
        product = stereo_product(k, p)
        # Of disparity, which falls with depth.
        lower = product / farthest - noise - 0.5 * p[DISPARITY_STEP]
        upper = product / nearest - noise + 0.5 * p[DISPARITY_STEP]
        return wp.vec2f(
            wp.where(upper > 0.0, product / wp.max(upper, 1.0e-6), wp.inf),
            wp.where(lower > 0.0, product / wp.max(lower, 1.0e-6), wp.inf),
        )
    return wp.vec2f(nearest, farthest)


@wp.func
def meets_any(
    first: wp.int32,
    end: wp.int32,
    place: wp.vec3i,
    depths: wp.vec2f,
    margin: wp.float32,
    env: wp.int32,
    scene: Scene,
) -> wp.bool:
    """Tell whether a pixel's ray meets the box of a leaf, ``margin`` [m] larger, between two depths."""
    ray = world_ray(place[1], place[2], scene.cameras[place[0]], env)
    along = 1.0 / wp.max(wp.dot(ray.direction, ray.forward), 1.0e-6)
    inverse = wp.vec3f()
    for axis in range(3):
        # A number in the place of infinity, which times 0 is none.
        inverse[axis] = 1.0 / wp.where(wp.abs(ray.direction[axis]) > 1.0e-9, ray.direction[axis], 1.0e-9)

    for i in range(first, end):
        leaf = scene.leaves[i]
        a = wp.cw_mul(scene.shapes.lowers[leaf] - wp.vec3f(margin) - ray.origin, inverse)
        b = wp.cw_mul(scene.shapes.uppers[leaf] + wp.vec3f(margin) - ray.origin, inverse)
        enters = wp.max(depths[0] * along, wp.max(wp.min(a, b)))
        leaves = wp.min(depths[1] * along, wp.min(wp.max(a, b)))
        if enters <= leaves:
            return True
    return False


@wp.func
def depths_before_noise(place: wp.vec3i, errors: Errors, env: wp.int32, scene: Scene) -> wp.vec2f:
    """Return bounds of the depths that a pixel's noise brings into the crop [m]; the first is larger where none are.

    The pixel is (camera, row, column).
    """
    camera = scene.cameras[place[0]]
    p = scene.parameters[env, place[0]]
    depths = crop_depths(center_of_pixel(place[1], place[2], camera), scene.matrices[env, place[0]], scene)
    depths = wp.vec2f(wp.max(depths[0], p[MIN_RANGE]), wp.min(depths[1], p[MAX_RANGE]))
    if depths[0] > depths[1]:
        return depths
    return true_depths(depths, p[NOISE] * errors.axial, pinhole_of(camera, env), p)


@wp.func
def may_mix(
    scene: Scene, env: wp.int32, row: wp.int32, column: wp.int32, seen: float, camera: ErrorCamera, errors: Errors
) -> wp.bool:
    """Tell whether it matters for the crop what a pixel that reads ``seen`` [m] is mixed with."""
    place = wp.vec3i(wp.int32(camera.index), row, column)
    depths = depths_before_noise(place, errors, env, scene)
    if seen >= depths[0] and seen <= depths[1]:
        return True

    # What must be beside it, for the mixture to come into the crop.
    share = wp.max(errors.share, 1.0e-6)
    a = seen + (depths[0] - seen) / share
    b = seen + (depths[1] - seen) / share
    nearest = wp.max(wp.min(a, b), 0.0)
    farthest = wp.min(wp.max(a, b), camera.far)
    if depths[0] > depths[1] or nearest > farthest:
        return False
    margin = 1.5 * farthest / pinhole_of(scene.cameras[place[0]], env)[0]
    first = scene.leaf_starts[env]
    return meets_any(first, scene.leaf_starts[env + 1], place, wp.vec2f(nearest, farthest), margin, env, scene)


@wp.func
def may_be_valid(place: wp.vec3i, errors: Errors, env: wp.int32, scene: Scene) -> wp.bool:
    """Tell whether a pixel, (camera, row, column), can give a point of the crop with the errors that it was dealt."""
    if errors.is_dropped:
        return False
    depths = depths_before_noise(place, errors, env, scene)
    if depths[0] > depths[1]:
        return False

    p = scene.parameters[env, place[0]]
    err = scene.errors[place[0]]
    k = pinhole_of(scene.cameras[place[0]], env)
    # How far a pixel looks aside depends on the angle of incidence: by the least, or by the most, or between.
    least = looks_at(place[1], place[2], 0.0, k, p, err, errors)
    most = looks_at(place[1], place[2], MAX_ANGLE_RATIO, k, p, err, errors)
    first = scene.leaf_starts[env]
    end = scene.leaf_ends[env]
    margin = float(0.0)
    if least[0] != most[0] or least[1] != most[1]:
        margin = depths[1] / k[0]
    if errors.flies:
        # A surface of any shape beside it may be what its reading is mixed with.
        depths = wp.vec2f(0.0, depths[1])
        end = scene.leaf_starts[env + 1]
        margin += 1.5 * depths[1] / k[0]
        if meets_any(first, end, place, depths, margin, env, scene):
            return True
    if meets_any(first, end, wp.vec3i(place[0], least[0], least[1]), depths, margin, env, scene):
        return True
    if margin == 0.0:
        return False
    return meets_any(first, end, wp.vec3i(place[0], most[0], most[1]), depths, margin, env, scene)


@wp.func
def farthest_shift(env: wp.int32, index: wp.int32, scene: Scene) -> wp.float32:
    """Return how far aside a pixel may look, or find the surface that it is mixed with [px]."""
    p = scene.parameters[env, index]
    k = pinhole_of(scene.cameras[index], env)
    lateral = lateral_std(MAX_ANGLE_RATIO, p)
    shift = LARGEST_NORMAL * lateral * k[0] / focal_length_of(k, p)
    return shift + wp.where(scene.flies, 1.0, 0.0)


@wp.func
def errant_box(
    env: wp.int32, index: wp.int32, scene: Scene, lower: wp.vec3f, upper: wp.vec3f
) -> tuple[wp.vec3f, wp.vec3f]:
    """Return the corners of the box around all that a camera may misplace into a box in the world [m]."""
    camera = scene.cameras[index]
    center = (lower + upper) * 0.5
    half = (upper - lower) * 0.5
    distance = wp.length(center - wp.transform_get_translation(camera.poses[0, env])) + wp.length(half)
    p = scene.parameters[env, index]
    k = pinhole_of(camera, env)
    most = LARGEST_NORMAL * p[NOISE]
    there = wp.vec2f(distance, distance)
    a = true_depths(there, -most, k, p)
    b = true_depths(there, most, k, p)
    noise = wp.max(wp.max(a[1], b[1]) - distance, distance - wp.min(a[0], b[0]))
    half += wp.vec3f(wp.min(scene.misplaced[0] + scene.misplaced[1] * distance + noise, 100.0))
    return center - half, center + half


@wp.func
def errant_rectangle(
    env: wp.int32, index: wp.int32, leaf: wp.int32, lower: wp.vec3f, upper: wp.vec3f, scene: Scene
) -> wp.vec4i:
    """Return the pixels, as ``image_rectangle``, that may show an environment's leaf in a box of the world.

    Of a leaf that gives no points, those that show it between the camera and the box.
    """
    camera = scene.cameras[index]
    box_lower, box_upper = errant_box(env, index, scene, lower, upper)
    shift = farthest_shift(env, index, scene)
    within = image_rectangle(box_lower, box_upper, shift, camera, env)
    if is_beside(leaf, env, scene):
        eye = wp.transform_get_translation(camera.poses[0, env])
        box_lower = wp.min(box_lower, eye)
        box_upper = wp.max(box_upper, eye)

    found = leaf_rectangle(env, index, leaf, box_lower, box_upper, shift, scene)
    u0 = wp.max(found[0], within[0])
    v0 = wp.max(found[2], within[2])
    return wp.vec4i(u0, wp.max(wp.min(found[1], within[1]), u0), v0, wp.max(wp.min(found[3], within[3]), v0))


@wp.func
def is_beside(leaf: wp.int32, env: wp.int32, scene: Scene) -> wp.bool:
    """Tell whether an environment's leaf gives no points, but surfaces that others are mixed with."""
    return leaf >= scene.leaf_ends[env] - scene.leaf_starts[env]
