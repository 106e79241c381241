# SPDX-License-Identifier: BSD-3-Clause
"""Colours of points, for a sensor that lags behind its cameras."""

from types import SimpleNamespace
from typing import Any

import matplotlib as mpl
import numpy as np
import torch

from isaaclab_pc.sensors import PointCloudCfg
from isaaclab_pc.sensors.realism.cfg import DepthRealismCfg
from isaaclab_pc.viewer.point_colors import PointColors, color_ways


def test_points_of_a_late_cloud_are_coloured_by_its_age_in_each_environment():
    cfg = PointCloudCfg(cameras=("camera",), realism=DepthRealismCfg(latency=(0, 4)))
    pixels = torch.zeros(3, 5, dtype=torch.int32)
    cloud: Any = SimpleNamespace(
        cfg=cfg, age=torch.tensor([0, 1, 4]), data=SimpleNamespace(pixels=SimpleNamespace(torch=pixels))
    )
    colors = PointColors(cloud, [SimpleNamespace(image_shape=(2, 2))])
    assert colors.legends["age"] == ("0 frames", "4 frames")

    # One more point than pixels: an appended one.
    found = colors.read(np.zeros((3, 6)))["age"]
    assert found.shape == (3, 6, 3)
    for env, share in enumerate((0.0, 0.25, 1.0)):
        expected = 255.0 * np.array(mpl.colormaps["viridis"](share)[:3])
        assert np.abs(found[env] - expected).max() <= 1.0


def test_only_a_sensor_with_a_latency_knows_ages():
    assert "age" not in color_ways(PointCloudCfg())
    assert "age" not in color_ways(PointCloudCfg(realism=DepthRealismCfg()))
    assert "age" in color_ways(PointCloudCfg(realism=DepthRealismCfg(latency=1)))
