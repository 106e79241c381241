# SPDX-License-Identifier: BSD-3-Clause
"""The samplers of the cloud operator against their definitions."""

import numpy as np
import pytest
import torch
import warp as wp
from hypothesis import given, settings
from hypothesis import strategies as st

from isaaclab_pc.sensors.cloud import Cloud, pixel_order
from isaaclab_pc.sensors.kernels.pixel_kernels import permuted
from isaaclab_pc.sensors.point_sampler import CANDIDATES
from tests.unit.sensors.cloud_reference import Scene, greedy_farthest, random_scene, voxel_of

seeds = st.integers(0, 2**32 - 1)
DRAWS = 20_000
"""Environments that see the same image, each with a key of its own."""


def draws(size: tuple[int, int], *, consecutive: bool) -> Scene:
    """One image, every pixel valid, under many keys."""
    scene = random_scene(1, 1, [size], misses=0.0, cropped=False).envs([0] * DRAWS)
    generator = torch.Generator().manual_seed(7)
    keys = torch.arange(DRAWS) if consecutive else torch.randint(-(2**31), 2**31, (DRAWS,), generator=generator)
    scene.tensors["keys"] = keys.to(torch.int32)
    return scene


def chosen(cloud: Cloud, num_pixels: int) -> np.ndarray:
    """Which pixels each cloud holds, shape (N, P), float64."""
    held = np.zeros((len(cloud.pixels), num_pixels))
    np.put_along_axis(held, cloud.pixels.numpy().astype(np.int64), 1.0, axis=1)
    return held


def assert_share(got: np.ndarray | float, expected: np.ndarray | float) -> None:
    """The share of DRAWS is the expected probability within five standard errors."""
    error = 5 * np.sqrt(np.maximum(expected * (1 - np.asarray(expected)), 0) / DRAWS)
    np.testing.assert_array_less(np.abs(np.asarray(got) - expected), error + 1e-12)


@pytest.mark.parametrize("consecutive", [True, False])
@pytest.mark.parametrize(
    ("size", "num_points"), [((1, 2), 1), ((1, 3), 1), ((1, 7), 3), ((4, 4), 2), ((4, 4), 9), ((8, 8), 20)]
)
def test_random_draws_every_pixel_and_every_pair_alike(
    size: tuple[int, int], num_points: int, consecutive: bool
) -> None:
    total = size[0] * size[1]
    held = chosen(draws(size, consecutive=consecutive).cloud(num_points), total)
    assert (held.sum(1) == num_points).all()
    assert_share(held.mean(0), num_points / total)
    pairs = (held.T @ held / DRAWS)[~np.eye(total, dtype=bool)]
    assert_share(pairs, num_points * (num_points - 1) / (total * (total - 1)))


@wp.kernel
def permute(total: wp.int32, key: wp.uint32, ranks: wp.array(dtype=wp.int32)):  # pyright: ignore
    ranks[wp.tid()] = permuted(wp.tid(), total, key)  # pyright: ignore


@given(total=st.integers(1, 3000), key=seeds)
def test_permuted_is_a_permutation(total: int, key: int) -> None:
    ranks = wp.full(total, -1, dtype=wp.int32, device="cpu")
    wp.launch(permute, dim=total, inputs=[total, key, ranks], device="cpu")
    np.testing.assert_array_equal(np.sort(ranks.numpy()), np.arange(total))


@given(sizes=st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1, max_size=3))
def test_pixel_order_holds_every_pixel_camera_by_camera(sizes: list[tuple[int, int]]) -> None:
    order, offset = pixel_order(sizes), 0
    for height, width in sizes:
        part = order[offset : offset + height * width]
        np.testing.assert_array_equal(np.sort(part), offset + np.arange(height * width))
        offset += height * width
    assert len(order) == offset


def test_pixel_order_keeps_neighbours_together() -> None:
    order = pixel_order([(64, 64)]).reshape(-1, 64)
    # Each run of 64 is a block of 8 x 8.
    assert (np.ptp(order // 64, axis=1) == 7).all()
    assert (np.ptp(order % 64, axis=1) == 7).all()


@settings(max_examples=40)
@given(seed=seeds, size=st.tuples(st.integers(1, 16), st.integers(1, 16)), share=st.floats(0, 0.99))
def test_grid_takes_one_pixel_of_every_stratum(seed: int, size: tuple[int, int], share: float) -> None:
    scene = random_scene(seed, 1, [size, (4, 6)])
    every = scene.cloud(scene.num_pixels, sampler="grid")
    total = int(every.count[0])
    num_points = int(share * total)
    if num_points < 1:
        return
    rank = {pixel: rank for rank, pixel in enumerate(every.pixels[0, :total].tolist())}
    along = [pixel for pixel in pixel_order(scene.sizes).tolist() if pixel in rank]
    assert list(rank) == along
    picked = [rank[pixel] for pixel in scene.cloud(num_points, sampler="grid").pixels[0].tolist()]
    for k, pick in enumerate(picked):
        assert k * total // num_points <= pick < (k + 1) * total // num_points


def test_grid_draws_the_pixels_of_a_stratum_alike() -> None:
    held = chosen(draws((4, 4), consecutive=True).cloud(5, sampler="grid"), 16)
    strata = np.array([k * 16 // 5 for k in range(6)])
    expected = np.zeros(16)
    expected[pixel_order([(4, 4)])] = np.repeat(1 / np.diff(strata), np.diff(strata))
    assert_share(held.mean(0), expected)


def candidates(scene: Scene, num_points: int) -> Cloud:
    """Return the random pixels among which ``voxel`` and ``fps`` choose."""
    return scene.cloud(min(CANDIDATES * num_points, scene.num_pixels))


@settings(max_examples=60)
@given(seed=seeds, voxel_size=st.sampled_from([0.02, 0.1, 0.3, 1.0]), share=st.floats(0, 0.99))
def test_voxel_takes_one_point_of_each_and_then_fills(seed: int, voxel_size: float, share: float) -> None:
    scene = random_scene(seed, 1, [(12, 16), (6, 5)]).in_crop_frame()
    num_points = int(share * int(scene.cloud(scene.num_pixels).count[0]))
    if num_points < 1:
        return
    given = candidates(scene, num_points)
    points, pixels = given.points[0, given.mask[0]], given.pixels[0, given.mask[0]]
    voxels = voxel_of(points.numpy(), scene.settings["crop_lower"], voxel_size)
    # By their definition, but for points on a voxel's face.
    exact = (points.double().numpy() - np.array(scene.settings["crop_lower"])) / voxel_size
    faces = np.abs(exact - np.round(exact)) < 1e-3
    assert ((voxels == np.floor(exact)) | faces).all()
    occupied = {tuple(voxel) for voxel in voxels}
    of_pixel = dict(zip(pixels.tolist(), map(tuple, voxels), strict=True))

    pixels = scene.cloud(num_points, sampler="voxel", voxel_size=voxel_size).pixels[0].tolist()
    assert len(set(pixels)) == num_points
    first = [of_pixel[pixel] for pixel in pixels[: len(occupied)]]
    assert len(set(first)) == len(first)
    if len(occupied) <= num_points:
        assert set(first) == occupied


def test_voxel_draws_the_voxels_alike() -> None:
    scene = draws((4, 4), consecutive=False).in_crop_frame()
    every = scene.envs([0]).cloud(16, sampler="voxel", voxel_size=0.8)
    voxels = voxel_of(every.points[0].numpy(), scene.settings["crop_lower"], 0.8)
    _, voxel = np.unique(voxels, axis=0, return_inverse=True)
    of_pixel = np.zeros(16, dtype=np.int64)
    of_pixel[every.pixels[0]] = voxel
    occupied = int(voxel.max()) + 1
    assert 6 <= occupied <= 12
    held = chosen(scene.cloud(5, sampler="voxel", voxel_size=0.8), 16)
    shares = np.bincount(of_pixel, weights=held.mean(0))
    assert_share(shares, 5 / occupied)
    # Whatever pixel stands for a voxel, each of its pixels does at times.
    assert (held.mean(0) > 0).all()


def test_voxel_fill_is_drawn_alike() -> None:
    # All in one voxel: the point that stands for it and four of the fifteen others.
    held = chosen(draws((4, 4), consecutive=True).cloud(5, sampler="voxel", voxel_size=90.0), 16)
    assert_share(held.mean(0), 5 / 16)


def flat_lattice(num_cameras: int, side: int) -> Scene:
    """A wall seen from straight ahead: a square lattice of points, repeated by every camera, exact in float32."""
    scene = random_scene(0, 1, [(side, side)] * num_cameras, frames=False, misses=0.0, cropped=False)
    for image in scene.depth:
        image.fill_(1.0)
    scene.tensors["camera_pos"].zero_()
    scene.tensors["camera_quat"].copy_(torch.tensor([0.0, 0.0, 0.0, 1.0]))
    scene.tensors["intrinsics"].copy_(torch.tensor([[64.0, 0, side / 2], [0, 64, side / 2], [0, 0, 1]]))
    return scene


def assert_is_greedy_farthest(scene: Scene, num_points: int) -> None:
    """Point by point the picks of the plain algorithm in float32 among the candidates, from the first pick on."""
    scene = scene.in_crop_frame()
    given = candidates(scene, num_points)
    picked = scene.cloud(num_points, sampler="fps").pixels
    for env, total in enumerate(given.count.tolist()):
        if total <= num_points:
            continue
        pixels = given.pixels[env, :total].numpy()
        start = int(np.flatnonzero(pixels == int(picked[env, 0]))[0])
        expected = greedy_farthest(given.points[env, :total].numpy(), start, num_points)
        np.testing.assert_array_equal(picked[env].numpy(), pixels[expected])


@settings(max_examples=40)
@given(
    seed=seeds,
    sizes=st.lists(st.tuples(st.integers(1, 16), st.integers(1, 16)), min_size=1, max_size=3),
    share=st.floats(0, 1),
)
def test_fps_is_the_greedy_algorithm(seed: int, sizes: list[tuple[int, int]], share: float) -> None:
    scene = random_scene(seed, 3, sizes)
    assert_is_greedy_farthest(scene, max(1, round(share * scene.num_pixels)))


@settings(max_examples=30)
@given(key=seeds, num_cameras=st.integers(1, 3), side=st.integers(1, 12), share=st.floats(0, 1))
def test_fps_takes_the_lowest_of_ties_and_no_pixel_twice(key: int, num_cameras: int, side: int, share: float) -> None:
    scene = flat_lattice(num_cameras, side)
    scene.tensors["keys"][:] = key - 2**31
    num_points = max(1, round(share * scene.num_pixels))
    assert_is_greedy_farthest(scene, num_points)
    pixels = scene.cloud(num_points, sampler="fps").pixels[0].tolist()
    assert len(set(pixels)) == num_points


@pytest.mark.parametrize("frames", [True, False])
def test_fps_of_many_points(frames: bool) -> None:
    assert_is_greedy_farthest(random_scene(3, 2, [(64, 64), (40, 30)], frames=frames), 512)


def test_fps_of_a_large_wall() -> None:
    # As many candidates as pixels.
    assert_is_greedy_farthest(flat_lattice(1, 64), 1024)


@pytest.mark.parametrize("num_points", [3, 5])
def test_fps_starts_at_any_pixel(num_points: int) -> None:
    first = draws((4, 4), consecutive=True).cloud(num_points, sampler="fps").pixels[:, 0].numpy()
    assert_share(np.bincount(first, minlength=16) / DRAWS, 1 / 16)
