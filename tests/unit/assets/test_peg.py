# SPDX-License-Identifier: BSD-3-Clause
"""Sizes of pegs and boxes: the hole is where it is said to be, and each peg gets the box that it fits."""

from itertools import combinations, product

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from isaaclab_pc.assets.peg import PegAndBox, peg_and_box_variants, same_variant_of_each

VARIANTS = peg_and_box_variants(16)


@pytest.mark.parametrize("size", VARIANTS)
def test_the_walls_are_the_cube_without_the_hole_and_its_mouth(size: PegAndBox) -> None:
    walls = [(np.subtract(c, np.divide(s, 2)), np.add(c, np.divide(s, 2))) for c, s in size.walls()]
    half = size.half_length
    behind = -half + size.chamfer_depth
    center = np.array([0.0, *size.hole_center])
    openings = []
    for front, back, radius in ((-half, behind, size.hole_radius + size.chamfer), (behind, half, size.hole_radius)):
        openings.append((center + np.array([front, -radius, -radius]), center + np.array([back, radius, radius])))
    for lower, upper in walls:
        assert (upper - lower > 0.005).all()
        assert (np.abs([lower, upper]) <= half + 1e-9).all()
    for (lower, upper), (other_lower, other_upper) in combinations([*walls, *openings], 2):
        overlap = np.minimum(upper, other_upper) - np.maximum(lower, other_lower)
        assert overlap.min() <= 1e-9
    volume = sum(np.prod(upper - lower) for lower, upper in walls)
    assert volume == pytest.approx((2 * half) ** 3 - sum(np.prod(upper - lower) for lower, upper in openings))


@pytest.mark.parametrize("size", VARIANTS)
def test_the_slopes_lead_from_the_edges_of_the_mouth_to_those_of_the_hole_and_stay_in_the_walls(size) -> None:
    axis = np.array([0.0, *size.hole_center])
    for index, (center, edges, turn) in enumerate(size.slopes()):
        corners = np.array(list(product(*[(-0.5, 0.5)] * 3))) * edges
        corners = Rotation.from_rotvec(turn).apply(corners) + center - axis
        across = 1 + index % 2
        along, off_axis = corners[:, 0], np.abs(corners[:, across])
        inner = np.argsort(off_axis + along * size.chamfer / size.chamfer_depth)[:4]
        front, back = inner[along[inner] < along[inner].mean()], inner[along[inner] > along[inner].mean()]
        assert along[front] == pytest.approx([-size.half_length] * 2)
        assert off_axis[front] == pytest.approx([size.hole_radius + size.chamfer] * 2)
        assert along[back] == pytest.approx([-size.half_length + size.chamfer_depth] * 2)
        assert off_axis[back] == pytest.approx([size.hole_radius] * 2)
        assert (np.abs(corners + axis) < size.half_length + 1e-9).all()
    assert {tuple(np.sign(np.subtract(center, axis)[1:].round(6))) for center, _, _ in size.slopes()} == {
        *((1, 0), (-1, 0), (0, 1), (0, -1))
    }


def test_sizes_differ_fill_maniskills_ranges_and_are_the_same_in_every_run() -> None:
    lengths, radii = np.array([(size.half_length, size.radius) for size in VARIANTS]).T
    for values, lower, upper in ((lengths, 0.085, 0.125), (radii, 0.015, 0.025)):
        assert ((values >= lower) & (values <= upper)).all()
        assert np.ptp(values) > 0.8 * (upper - lower)
    centers = np.array([size.hole_center for size in VARIANTS])
    assert (np.abs(centers) <= 0.5 * (lengths - radii)[:, None]).all()
    assert (np.ptp(centers, axis=0) > 0.05).all()
    assert len(np.unique(centers, axis=0)) == len(VARIANTS)
    assert peg_and_box_variants(16) == VARIANTS


def test_a_peg_gets_its_own_box() -> None:
    pairs = list(product(range(3), range(3)))
    assert [pairs[index] for index in same_variant_of_each(np.ones(9), 5)] == [(0, 0), (1, 1), (2, 2), (0, 0), (1, 1)]
