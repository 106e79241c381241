# SPDX-License-Identifier: BSD-3-Clause
"""Which pixels a cloud's rays are cast at: the rectangles of shapes in images, and the pixel of a random position."""

from typing import Any

import warp as wp

from isaaclab_pc.sensors.kernels.ray_error_kernels import errant_rectangle, is_beside
from isaaclab_pc.sensors.kernels.ray_scene_kernels import Scene, crop_box, leaf_rectangle
from isaaclab_pc.sensors.kernels.ray_tail_kernels import NO_TAIL, share_of_tail, tail_of_rectangle
from isaaclab_pc.sensors.kernels.warp_base_kernels import Matrix, permuted, sync_block
from isaaclab_pc.sensors.realism.kernels import FLYING_PIXELS


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
    """Where the rectangle's tail begins, and the pair of faces, as of ``tail_of_rectangle``; 0 for none."""


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
def num_drawn(area: wp.int32, share: wp.float32, state: wp.uint32) -> wp.int32:
    """Draw how many of some pixels are of a small share: Poisson's numbers are those of so many rare events."""
    return wp.min(wp.int32(wp.poisson(state, share * float(area))), area)


def make_places(with_errors: bool) -> tuple[Any, Any]:
    """Return the functions ``find_rectangles`` and ``place_at``, for cameras that err or not."""

    @wp.func
    def is_whole(index: wp.int32, env: wp.int32, tails: wp.array2d(dtype=wp.vec3f)) -> wp.bool:
        """Tell whether all pixels of a rectangle are looked at."""
        if wp.static(with_errors):
            return tails[env, index][2] == 1.0
        return True

    @wp.func
    def find_rectangles(
        env: wp.int32,
        lane: wp.int32,
        lanes: wp.int32,
        scene: Scene,
        frame_pos: wp.array(dtype=wp.vec3f),
        frame_quat: wp.array(dtype=wp.quatf),
        matrices: wp.array2d(dtype=Matrix),
        error_key: wp.int32,
        rectangles: wp.array2d(dtype=wp.vec4i),
        tails: wp.array2d(dtype=wp.vec3f),
        ends: wp.array2d(dtype=wp.int32),
    ):
        """Write each leaf's rectangle in each image, its tail, and how many pixels to look at up to its end.

        ``tails`` are where the tail begins, its pair of faces, and the share of the rectangle that is looked at.
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
                tail = wp.vec2f(NO_TAIL, 0.0)
                share = scene.parameters[env][FLYING_PIXELS]
                if not is_beside(leaf, env, scene):
                    if area_of(rectangle) > 0:
                        number = scene.leaves[scene.leaf_starts[env] + leaf]
                        tail = tail_of_rectangle(rectangle, number, camera, env, matrices[env, camera], scene)
                    share = share_of_tail(tail[0])
                tails[env, index] = wp.vec3f(tail[0], tail[1], share)
            else:
                rectangles[env, index] = leaf_rectangle(env, camera, leaf, box_lower, box_upper, 0.0, scene)
            index += lanes

        sync_block()
        if lane == 0:
            end = wp.int32(0)
            for i in range(num_rectangles):
                area = area_of(rectangles[env, i])
                if not is_whole(i, env, tails):
                    area = num_drawn(area, tails[env, i][2], wp.rand_init(error_key, -1 - i))
                end += area
                ends[env, i] = end
        sync_block()

    @wp.func
    def place_at(
        position: wp.int32,
        env: wp.int32,
        num_leaves: wp.int32,
        scene: Scene,
        error_key: wp.int32,
        rectangles: wp.array2d(dtype=wp.vec4i),
        tails: wp.array2d(dtype=wp.vec3f),
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
        takes_all = is_whole(index, env, tails)
        if not takes_all:
            pixel = permuted(pixel, area_of(r), wp.uint32(error_key + index))
            place.tail = wp.vec2f(tails[env, index][0], tails[env, index][1])
        width = r[1] - r[0]
        row = r[2] + pixel // width
        column = r[0] + pixel % width
        camera = index // num_leaves
        place.pixel = wp.vec3i(camera, row, column)
        # Only of whole rectangles does an earlier one matter alone.
        for i in range(wp.where(takes_all, place.leaf, num_leaves)):
            other = camera * num_leaves + i
            o = rectangles[env, other]
            if column >= o[0] and column < o[1] and row >= o[2] and row < o[3]:
                # Mixtures and tails of a pixel are events of their own.
                is_earlier = other < index and place.is_mixture == is_beside(i, env, scene)
                if is_whole(other, env, tails) or (is_earlier and not takes_all):
                    place.pixel = wp.vec3i(-1, row, column)
                    return place
        return place

    return find_rectangles, place_at
