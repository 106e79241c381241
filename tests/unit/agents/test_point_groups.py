# SPDX-License-Identifier: BSD-3-Clause
"""Neighbourhoods of clouds, against the search of the cloud operations and a loop."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isaaclab_pc.agents.point_groups import group_points, sort_points
from isaaclab_pc.sensors.cloud_ops import gather_points, knn


def lattice(seed: int, batch: int, count: int, features: int = 3) -> torch.Tensor:
    """Draw points with many equal distances, as pixels of a plane in float16 have, and with some points twice."""
    generator = torch.Generator().manual_seed(seed)
    return 0.05 * torch.randint(-3, 4, (batch, count, features), generator=generator).float()


@settings(max_examples=30)
@given(st.integers(0, 2**31 - 1), st.integers(1, 3), st.integers(1, 40))
def test_groups_ignore_order_and_repetition(seed: int, batch: int, count: int) -> None:
    points = lattice(seed, batch, count, 4)
    generator = torch.Generator().manual_seed(seed + 1)
    repeated = points[:, torch.randint(count, (5,), generator=generator)]
    padded = torch.cat([points, repeated], dim=1)[:, torch.randperm(count + 5, generator=generator)]

    expected = group_points(points, count, count)
    centers, groups = group_points(padded, count, count)
    assert torch.equal(centers, expected[0])
    assert torch.equal(groups, expected[1])


def test_points_around_a_centre_are_the_nearest_ones() -> None:
    torch.manual_seed(0)
    points = torch.randn(3, 30, 5)
    centers, groups = group_points(points, 6, 7)
    expected = gather_points(points, knn(points, centers, 7).indices)
    torch.testing.assert_close(groups, expected, rtol=0, atol=0)
    torch.testing.assert_close(groups[:, :, 0, :3], centers, rtol=0, atol=0)


def test_centres_are_as_far_from_each_other_as_a_greedy_choice_makes_them() -> None:
    torch.manual_seed(0)
    points = torch.randn(1, 30, 3)
    centers = group_points(points, 6, 1)[0][0]
    for chosen in range(1, 6):
        distance = torch.cdist(points[0], centers[:chosen]).amin(dim=1)
        farthest = torch.cdist(centers[chosen : chosen + 1], centers[:chosen]).amin()
        torch.testing.assert_close(farthest, distance.max())


def test_where_a_cloud_has_too_few_points_its_centre_repeats() -> None:
    points = torch.tensor([[[0.0, 0.0, 0.0]] * 5 + [[1.0, 0.0, 0.0]]])
    centers, groups = group_points(points, 2, 4)
    assert sorted(centers[0, :, 0].tolist()) == [0.0, 1.0]
    for center, group in zip(centers[0], groups[0], strict=True):
        assert group[:, 0].tolist() == [center[0], 1.0 - center[0], center[0], center[0]]


def test_points_that_differ_in_a_feature_alone_are_no_copies() -> None:
    points = torch.zeros(1, 3, 7)
    points[0, 1, 6] = 1.0
    assert sort_points(points)[1].sum() == 1
