# SPDX-License-Identifier: BSD-3-Clause
"""The third judge's camera: dark where the projector does not shine, and as exact as matching is."""

import numpy as np
import pytest
import torch

pytest.importorskip("cv2", reason="of the extra bench")

from benchmarks.stereo_judge import RIGHT_M, infrared, matched_depth

SIZE = (240, 320)
FOCAL_LENGTH = 210.0


def images(depth: float) -> list[np.ndarray]:
    """Return what both imagers see of a wall [m]."""
    wall = torch.full((1, *SIZE), depth)
    return [(infrared(wall, wall, offset, FOCAL_LENGTH)[0] * 255).byte().numpy() for offset in (0.0, RIGHT_M)]


@pytest.mark.parametrize("depth", [0.5, 0.8, 1.1])
def test_a_wall_is_matched_where_it_stands(depth: float) -> None:
    left, right = images(depth)
    found = matched_depth(left, right, FOCAL_LENGTH * RIGHT_M)[20:-20, 20:-20]
    is_found = found > 0.0
    assert is_found.mean() > 0.9
    # A quarter of a pixel of disparity, which interpolation between whole ones is off by at most.
    assert np.median(np.abs(found[is_found] - depth)) < 0.25 * depth**2 / (FOCAL_LENGTH * RIGHT_M)


def test_what_the_projector_does_not_see_has_no_pattern() -> None:
    wall = torch.full((1, *SIZE), 1.0)
    before = torch.full((1, *SIZE), 0.5)
    lit, dark = (infrared(wall, projector, 0.0, FOCAL_LENGTH)[0, 20:-20, 40:-40] for projector in (wall, before))
    assert lit.std() > 0.1
    assert dark.std() < 0.05 * lit.std()
