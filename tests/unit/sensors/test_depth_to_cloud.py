# SPDX-License-Identifier: BSD-3-Clause
"""The cloud operator against float64 references, its samplers against their definitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isaaclab_pc.sensors.depth_to_cloud import SAMPLERS, Cloud
from tests.unit.sensors.cloud_reference import Scene, random_scene, reference


def assert_matches_reference(scene: Scene, cloud: Cloud, num_points: int) -> None:
    """Every point is a distinct valid pixel's, at its place; as many as there are; the rest repeats them."""
    num_envs = len(scene.depth[0])
    assert cloud.points.shape == (num_envs, num_points, 3)
    assert cloud.mask.sum(1).tolist() == cloud.count.tolist()
    for env in range(num_envs):
        expected = reference(scene, env)
        count, pixels = int(cloud.count[env]), cloud.pixels[env].numpy()
        points = cloud.points[env].double().numpy()
        least = min(np.count_nonzero(expected.valid & ~expected.unsure), num_points)
        most = min(np.count_nonzero(expected.valid | expected.unsure), num_points)
        assert least <= count <= most
        if count == 0:
            assert not points.any()
            continue
        assert (expected.valid | expected.unsure)[pixels].all()
        assert len(set(pixels[:count])) == count
        np.testing.assert_array_equal(pixels, pixels[np.arange(num_points) % count])
        np.testing.assert_array_equal(points, points[np.arange(num_points) % count])
        error = np.abs(points - expected.points[pixels]).max(1)
        assert (error <= expected.tolerance[pixels]).all(), (error / expected.tolerance[pixels]).max()


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    num_envs=st.integers(1, 4),
    sizes=st.lists(st.tuples(st.integers(1, 16), st.integers(1, 16)), min_size=1, max_size=3),
    share=st.floats(0, 1),
    sampler=st.sampled_from(SAMPLERS),
    frames=st.booleans(),
    labelled=st.booleans(),
)
def test_points_are_distinct_valid_pixels_at_their_places(
    seed: int,
    num_envs: int,
    sizes: list[tuple[int, int]],
    share: float,
    sampler: str,
    frames: bool,
    labelled: bool,
) -> None:
    scene = random_scene(seed, num_envs, sizes, frames=frames, labelled=labelled)
    num_points = max(1, round(share * scene.num_pixels))
    assert_matches_reference(scene, scene.cloud(num_points, sampler=sampler, voxel_size=0.1), num_points)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize(
    ("num_envs", "sizes", "num_points"),
    [
        (1, [(1, 1)], 1),
        (1, [(256, 256)], 1000),
        (2, [(256, 1), (3, 200), (64, 48)], 512),
        (1024, [(5, 7)], 8),
    ],
)
def test_sizes_from_one_pixel_to_many(
    sampler: str, num_envs: int, sizes: list[tuple[int, int]], num_points: int
) -> None:
    scene = random_scene(num_envs, num_envs, sizes)
    cloud = scene.cloud(num_points, sampler=sampler, voxel_size=0.05)
    assert_matches_reference(scene, cloud, num_points)
