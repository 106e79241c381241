# SPDX-License-Identifier: BSD-3-Clause
"""Colours of points."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from isaaclab_pc.sensors import PointCloudCfg
from isaaclab_pc.viewer.point_colors import color_points


def test_points_that_no_camera_saw_have_a_colour_of_their_own():
    pixels = torch.zeros(3, 5, dtype=torch.int32)
    cfg = PointCloudCfg(cameras=("camera",))
    cloud: Any = SimpleNamespace(cfg=cfg, data=SimpleNamespace(pixels=SimpleNamespace(torch=pixels)))
    # One more point than pixels: an appended one.
    found = color_points(cloud, [SimpleNamespace(image_shape=(2, 2))], np.zeros((3, 6)))["camera"]
    assert found.shape == (3, 6, 3)
    assert (found[:, :5] == found[0, 0]).all()
    assert (found[:, 5] != found[0, 0]).any(axis=-1).all()
