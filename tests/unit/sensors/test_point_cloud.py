# SPDX-License-Identifier: BSD-3-Clause
"""What points carry, without a simulator."""

from types import SimpleNamespace
from typing import Any

import torch

from isaaclab_pc.sensors.depth_to_cloud import Cloud
from isaaclab_pc.sensors.point_cloud import PointCloud


def test_a_point_of_an_unknown_class_is_of_none() -> None:
    ids = torch.tensor([[[-1, 0, 1, 2, 7]]], dtype=torch.int32)
    sensor: Any = SimpleNamespace(
        cfg=SimpleNamespace(classes=("cube", "table")),
        operator=SimpleNamespace(image_sizes=[(1, 5)]),
        _labels=SimpleNamespace(class_index=torch.tensor([[0, -1, 1]])),
        _device="cpu",
    )
    cloud = Cloud(torch.zeros(1, 5, 3), torch.tensor([5]), torch.arange(5)[None].int())
    one_hot = PointCloud._one_hot(sensor, cloud, [ids])
    assert one_hot.tolist() == [[[0, 0], [1, 0], [0, 0], [0, 1], [0, 0]]]
