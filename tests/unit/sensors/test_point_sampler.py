# SPDX-License-Identifier: BSD-3-Clause
"""The samplers keep what they are for of more points than a cloud has."""

import numpy as np
import pytest
import torch

from isaaclab_pc.sensors.cloud import Cloud, pixel_order
from isaaclab_pc.sensors.point_sampler import PointSampler

NUM_ENVS, KEPT, GIVEN = 4, 24, 96
SIZES = [(30, 40), (16, 20)]
PIXELS = 30 * 40 + 16 * 20
COUNTS = (96, 61, 10, 0)
LOWER = (-0.5, -0.5, 0.0)
EDGE = 0.25
CROP = np.array([LOWER, (0.5, 0.5, 1.0)])


def sampler(name: str) -> PointSampler:
    return PointSampler(name, KEPT, SIZES, CROP, EDGE, torch.device("cpu"))  # pyright: ignore


@pytest.fixture
def given() -> Cloud:
    generator = torch.Generator().manual_seed(0)
    points = torch.rand(NUM_ENVS, GIVEN, 3, generator=generator) + torch.tensor(LOWER)
    pixels = torch.stack([torch.randperm(PIXELS, generator=generator)[:GIVEN] for _ in range(NUM_ENVS)]).int()
    count = torch.tensor(COUNTS, dtype=torch.int32)
    return Cloud(points, count, pixels, labels=pixels % 5, normals=points * 2)


KEYS = torch.arange(NUM_ENVS, dtype=torch.int32)


@pytest.mark.parametrize("name", ["grid", "voxel", "fps"])
def test_what_is_kept_belongs_together_and_repeats_only_where_there_are_too_few(name: str, given: Cloud) -> None:
    kept = sampler(name)(given, KEYS)
    assert kept.count.tolist() == [KEPT, KEPT, 10, 0]
    assert kept.labels is not None
    assert kept.normals is not None
    for env, count in enumerate(kept.count.tolist()):
        place = {pixel: i for i, pixel in enumerate(given.pixels[env, : COUNTS[env] or 1].tolist())}
        index = [place[pixel] for pixel in kept.pixels[env].tolist()]
        assert len(set(index)) == max(count, 1)
        assert torch.equal(kept.points[env], given.points[env, index])
        assert torch.equal(kept.labels[env], kept.pixels[env] % 5)
        assert torch.equal(kept.normals[env], kept.points[env] * 2)


def test_grid_keeps_one_of_each_part_of_the_curve(given: Cloud) -> None:
    place = torch.from_numpy(pixel_order(SIZES)).argsort()
    for env in (0, 1):
        on_curve = place[given.pixels[env, : COUNTS[env]].long()].sort().values
        kept = place[sampler("grid")(given, KEYS).pixels[env].long()]
        rank = torch.searchsorted(on_curve, kept)
        for k in range(KEPT):
            assert k * COUNTS[env] // KEPT <= rank[k] < (k + 1) * COUNTS[env] // KEPT


def test_voxel_keeps_a_point_of_every_voxel_before_a_second(given: Cloud) -> None:
    def voxels(points: torch.Tensor) -> set[tuple[int, ...]]:
        cells = ((points - torch.tensor(LOWER)) / EDGE).long()
        return {tuple(cell) for cell in cells.tolist()}

    kept = sampler("voxel")(given, KEYS)
    for env in (0, 1):
        occupied = voxels(given.points[env, : COUNTS[env]])
        assert len(voxels(kept.points[env])) == min(KEPT, len(occupied))


def test_fps_keeps_the_farthest_each_time(given: Cloud) -> None:
    kept = sampler("fps")(given, KEYS).points
    for env in (0, 1):
        candidates = given.points[env, : COUNTS[env]]
        for k in range(1, KEPT):
            gap = torch.cdist(candidates, kept[env, :k]).amin(dim=1)
            assert torch.isclose(torch.cdist(kept[env, k : k + 1], kept[env, :k]).amin(), gap.max())
