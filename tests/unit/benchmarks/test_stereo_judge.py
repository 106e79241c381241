# SPDX-License-Identifier: BSD-3-Clause
"""The third judge's camera: dark where the projector does not shine, and as exact as matching is."""

import importlib
import os
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch

SIZE = (240, 320)
FOCAL_LENGTH = 210.0


@pytest.fixture
def judge() -> Any:
    """The benchmark, where the extra bench is installed."""
    # OpenCV writes to the environment as it is imported.
    with patch.dict(os.environ):
        pytest.importorskip("cv2", reason="needs OpenCV, of the extra bench")
    return importlib.import_module("benchmarks.stereo_judge")


@pytest.mark.parametrize("depth", [0.5, 0.8, 1.1])
def test_a_wall_is_matched_where_it_stands(judge: Any, depth: float) -> None:
    wall = torch.full((1, *SIZE), depth)
    product = FOCAL_LENGTH * judge.RIGHT_M
    left, right = (judge.infrared(wall, wall, offset, FOCAL_LENGTH)[0] for offset in (0.0, judge.RIGHT_M))
    left, right = ((image * 255).byte().numpy() for image in (left, right))
    found = judge.matched_depth(left, right, product)[20:-20, 20:-20]
    is_found = found > 0.0
    assert is_found.mean() > 0.9
    # A quarter of a pixel of disparity, which interpolation between whole ones is off by at most.
    assert np.median(np.abs(found[is_found] - depth)) < 0.25 * depth**2 / product


def test_what_the_projector_does_not_see_has_no_pattern(judge: Any) -> None:
    wall = torch.full((1, *SIZE), 1.0)
    before = torch.full((1, *SIZE), 0.5)
    lit, dark = (judge.infrared(wall, seen, 0.0, FOCAL_LENGTH)[0, 20:-20, 40:-40] for seen in (wall, before))
    assert lit.std() > 0.1
    assert dark.std() < 0.05 * lit.std()
