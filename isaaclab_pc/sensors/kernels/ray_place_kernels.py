# SPDX-License-Identifier: BSD-3-Clause
"""Which pixels a cloud's rays are cast at: the rectangles of shapes in images, and the pixel of a random position."""

from typing import Any

import warp as wp

from isaaclab_pc.sensors.kernels.pixel_kernels import permuted, sync_block
from isaaclab_pc.sensors.kernels.ray_error_kernels import errant_rectangle, is_beside
from isaaclab_pc.sensors.kernels.ray_scene_kernels import Scene, crop_box, leaf_rectangle
from isaaclab_pc.sensors.kernels.ray_tail_kernels import NO_TAIL, share_of_tail, steepest_ratio, tail_of_rectangle
from isaaclab_pc.sensors.realism.kernels import FLYING_PIXELS

PARTS = wp.constant(4)
"""Parts of a large rectangle along its width, and along its height. Each has a tail of its own."""

LEAST_AREA = wp.constant(8192)
"""Pixels of a large rectangle."""

ALL = wp.constant(-1.0)
"""In the place of a number of pixels: all of a part, with the numbers that they were dealt."""


@wp.struct
class Place:
    """A pixel to look at."""

    pixel: wp.vec3i
    """Camera, row and column."""
    leaf: wp.int32
    """Number, among the environment's, of the leaf with the rectangle that it was drawn from."""
    is_mixture: wp.bool
    """Whether it is known to be one, where it is at an edge."""
    tail: wp.vec2f
    """Where the part's tail begins, and the pair of faces, as of ``tail_of_rectangle``; 0 for none."""


@wp.func
def area_of(rectangle: wp.vec4i) -> wp.int32:
    return (rectangle[1] - rectangle[0]) * (rectangle[3] - rectangle[2])


@wp.func
def num_leaves_of(env: wp.int32, scene: Scene) -> wp.int32:
    """Return how many of an environment's leaves have rectangles."""
    if scene.flies:
        return scene.leaf_starts[env + 1] - scene.leaf_starts[env]
    return scene.leaf_ends[env] - scene.leaf_starts[env]


@wp.func
def num_drawn(area: wp.int32, share: wp.float32, state: wp.uint32) -> wp.float32:
    """Draw how many of some pixels are of a small share: Poisson's numbers are those of so many rare events."""
    return wp.min(float(wp.poisson(state, share * float(area))), float(area))


@wp.func
def parts_along(r: wp.vec4i, beside: wp.bool) -> wp.int32:
    """Return how many parts a rectangle has along each side."""
    return wp.where(beside or area_of(r) < LEAST_AREA, 1, PARTS)


@wp.func
def part_of(r: wp.vec4i, part: wp.int32, parts: wp.int32) -> wp.vec4i:
    """Return one of the parts of a rectangle."""
    across = part % parts
    down = part // parts
    width = r[1] - r[0]
    height = r[3] - r[2]
    return wp.vec4i(
        r[0] + width * across // parts,
        r[0] + width * (across + 1) // parts,
        r[2] + height * down // parts,
        r[2] + height * (down + 1) // parts,
    )


@wp.func
def part_with(r: wp.vec4i, row: wp.int32, column: wp.int32, parts: wp.int32) -> wp.int32:
    """Return the part of a rectangle that holds a pixel of it."""
    across = (parts * (column - r[0] + 1) - 1) // (r[1] - r[0])
    down = (parts * (row - r[2] + 1) - 1) // (r[3] - r[2])
    return down * parts + across


@wp.func
def is_within(leaf: wp.int32, lower: wp.vec3f, upper: wp.vec3f, scene: Scene) -> wp.bool:
    """Tell whether all of a leaf is in a box of the world."""
    least = wp.min(scene.shapes.lowers[leaf] - lower)
    return wp.min(least, wp.min(upper - scene.shapes.uppers[leaf])) >= 0.0


@wp.func
def find_parts(
    r: wp.vec4i,
    index: wp.int32,
    camera: wp.int32,
    leaf: wp.int32,
    env: wp.int32,
    error_key: wp.int32,
    box_lower: wp.vec3f,
    box_upper: wp.vec3f,
    scene: Scene,
    tails: wp.array3d(dtype=wp.vec3f),
) -> wp.int32:
    """Write the tails of a rectangle's parts; return how many pixels of it to look at.

    ``box_lower`` and ``box_upper`` are those of the crop in the world [m].
    """
    beside = is_beside(leaf, env, scene)
    number = scene.leaves[scene.leaf_starts[env] + leaf]
    parts = parts_along(r, beside)
    ratio = float(0.0)
    pairs = wp.vec2i(0, 9)
    if parts > 1:
        ratio = steepest_ratio(number, camera, env, scene)
        tail = tail_of_rectangle(r, pairs, ratio, number, camera, env, scene)
        # To look for another one of each part takes longer than it saves.
        if tail[0] > NO_TAIL:
            pairs = wp.vec2i(wp.int32(tail[1]), wp.int32(tail[1]) + 1)
        elif is_within(number, box_lower, box_upper, scene):
            pairs = wp.vec2i(0, 0)

    total = wp.int32(0)
    for part in range(parts * parts):
        rectangle = part_of(r, part, parts)
        area = area_of(rectangle)
        tail = wp.vec2f()
        share = scene.parameters[env, camera][FLYING_PIXELS]
        if parts > 1:
            tail = tail_of_rectangle(rectangle, pairs, ratio, number, camera, env, scene)
            share = share_of_tail(tail[0])
        drawn = ALL
        if beside or tail[0] > 0.0:
            drawn = num_drawn(area, share, wp.rand_init(error_key, -1 - index * PARTS * PARTS - part))
        tails[env, index, part] = wp.vec3f(tail[0], tail[1], drawn)
        total += wp.where(drawn == ALL, area, wp.int32(drawn))
    return total


@wp.func
def num_of_part(drawn: wp.float32, rectangle: wp.vec4i) -> wp.int32:
    """Return how many pixels of a part to look at."""
    return wp.where(drawn == ALL, area_of(rectangle), wp.int32(drawn))


def make_places(with_errors: bool) -> tuple[Any, Any]:
    """Return the functions ``find_rectangles`` and ``place_at``, for cameras that err or not."""

    @wp.func
    def is_whole(
        index: wp.int32,
        row: wp.int32,
        column: wp.int32,
        r: wp.vec4i,
        beside: wp.bool,
        env: wp.int32,
        tails: wp.array3d(dtype=wp.vec3f),
    ) -> wp.bool:
        """Tell whether all pixels of a rectangle's part are looked at."""
        if wp.static(with_errors):
            return tails[env, index, part_with(r, row, column, parts_along(r, beside))][2] == ALL
        return True

    @wp.func
    def find_rectangles(
        env: wp.int32,
        lane: wp.int32,
        lanes: wp.int32,
        scene: Scene,
        frame_pos: wp.array(dtype=wp.vec3f),
        frame_quat: wp.array(dtype=wp.quatf),
        error_key: wp.int32,
        rectangles: wp.array2d(dtype=wp.vec4i),
        tails: wp.array3d(dtype=wp.vec3f),
        ends: wp.array2d(dtype=wp.int32),
    ):
        """Write each leaf's rectangle in each image, and how many pixels to look at up to its end.

        ``tails`` are, for each part, where the tail begins, its pair of faces, and how many pixels are looked at.
        """
        box_lower, box_upper = crop_box(env, scene, frame_pos, frame_quat)
        num_leaves = num_leaves_of(env, scene)
        num_rectangles = num_leaves * scene.cameras.shape[0]

        index = lane
        while index < num_rectangles:
            camera = index // num_leaves
            leaf = index % num_leaves
            if wp.static(with_errors):
                rectangle = errant_rectangle(env, camera, leaf, box_lower, box_upper, scene)
                rectangles[env, index] = rectangle
                ends[env, index] = find_parts(
                    rectangle, index, camera, leaf, env, error_key, box_lower, box_upper, scene, tails
                )
            else:
                rectangles[env, index] = leaf_rectangle(env, camera, leaf, box_lower, box_upper, 0.0, scene)
                ends[env, index] = area_of(rectangles[env, index])
            index += lanes

        sync_block()
        if lane == 0:
            for i in range(1, num_rectangles):
                ends[env, i] += ends[env, i - 1]
        sync_block()

    @wp.func
    def place_at(
        position: wp.int32,
        env: wp.int32,
        num_leaves: wp.int32,
        scene: Scene,
        error_key: wp.int32,
        rectangles: wp.array2d(dtype=wp.vec4i),
        tails: wp.array3d(dtype=wp.vec3f),
        ends: wp.array2d(dtype=wp.int32),
    ) -> Place:
        """Return the pixel of a position in the rectangles; camera -1 where another one holds it.

        Those of which all pixels are looked at go before the others.
        """
        index = wp.int32(0)
        start = wp.int32(0)
        while ends[env, index] <= position:
            start = ends[env, index]
            index += 1

        place = Place()
        place.leaf = index % num_leaves
        place.is_mixture = is_beside(place.leaf, env, scene)
        r = rectangles[env, index]
        pixel = position - start
        takes_all = bool(True)
        if wp.static(with_errors):
            parts = parts_along(r, place.is_mixture)
            part = wp.int32(0)
            number = num_of_part(tails[env, index, part][2], part_of(r, part, parts))
            while pixel >= number:
                pixel -= number
                part += 1
                number = num_of_part(tails[env, index, part][2], part_of(r, part, parts))
            r = part_of(r, part, parts)
            tail = tails[env, index, part]
            takes_all = tail[2] == ALL
            if not takes_all:
                pixel = permuted(pixel, area_of(r), wp.uint32(error_key + index * PARTS * PARTS + part))
                place.tail = wp.vec2f(tail[0], tail[1])
        width = r[1] - r[0]
        row = r[2] + pixel // width
        column = r[0] + pixel % width
        camera = index // num_leaves
        place.pixel = wp.vec3i(camera, row, column)
        # Only of whole parts does an earlier rectangle matter alone.
        for i in range(wp.where(takes_all, place.leaf, num_leaves)):
            other = camera * num_leaves + i
            o = rectangles[env, other]
            if other != index and column >= o[0] and column < o[1] and row >= o[2] and row < o[3]:
                # Mixtures and tails of a pixel are events of their own.
                beside = is_beside(i, env, scene)
                is_earlier = other < index and place.is_mixture == beside
                if is_whole(other, row, column, o, beside, env, tails) or (is_earlier and not takes_all):
                    place.pixel = wp.vec3i(-1, row, column)
                    return place
        return place

    return find_rectangles, place_at
