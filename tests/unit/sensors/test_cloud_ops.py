# SPDX-License-Identifier: BSD-3-Clause
"""Operations on clouds against numpy and scipy in float64."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import KDTree
from scipy.spatial.transform import Rotation
from torch.utils._python_dispatch import TorchDispatchMode

from isaaclab_pc.sensors import cloud_ops
from isaaclab_pc.sensors.cloud_ops import (
    Neighbors,
    ball_query,
    drop_points,
    gather_points,
    jitter,
    knn,
    normalize,
    random_rotation,
    rotate,
)

seeds = st.integers(0, 2**32 - 1)
HALF_SPACING_F16 = 2.0**-11
"""Rounding of float16, relative."""


def rand(seed: int, *shape: int) -> torch.Tensor:
    """Uniform in [-1, 1)."""
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def lattice(seed: int, *shape: int, side: int = 5) -> torch.Tensor:
    """Points with small integer coordinates: their distances are exact, and many are equal."""
    return torch.randint(0, side, shape, generator=torch.Generator().manual_seed(seed)).float()


def squared_distances(points: torch.Tensor, centers: torch.Tensor) -> np.ndarray:
    """(N, Q, K), float64."""
    difference = centers[..., :3].double().numpy()[:, :, None] - points[..., :3].double().numpy()[:, None]
    return (difference**2).sum(-1)


# Scaling


@given(
    seed=seeds,
    lower=st.tuples(*[st.floats(-3, 1)] * 3),
    size=st.tuples(*[st.floats(0.1, 4)] * 3),
    channels=st.integers(3, 6),
    half=st.booleans(),
)
def test_normalize_maps_the_box_to_the_unit_cube(seed, lower, size, channels, half):
    upper = [low + span for low, span in zip(lower, size, strict=True)]
    points = rand(seed, 3, 7, channels).to(torch.float16 if half else torch.float32)
    result = normalize(points, lower, upper)
    expected = 2 * (points[..., :3].double().numpy() - lower) / size - 1
    tolerance = HALF_SPACING_F16 if half else 1e-6
    np.testing.assert_allclose(result[..., :3].double(), expected, rtol=tolerance, atol=2e-5)
    assert result.dtype == points.dtype
    assert torch.equal(result[..., 3:], points[..., 3:])
    corners = normalize(torch.tensor([[lower, upper]]), lower, upper)
    torch.testing.assert_close(corners, torch.tensor([[[-1.0] * 3, [1.0] * 3]]), rtol=0, atol=2e-5)


# Augmentation


@given(seed=seeds, half=st.booleans())
def test_rotate_turns_points_and_normals(seed, half):
    points = rand(seed, 4, 9, 8).to(torch.float16 if half else torch.float32)
    rotations = Rotation.random(4, rng=np.random.default_rng(seed))
    result = rotate(points, torch.tensor(rotations.as_quat(), dtype=torch.float32), normals=4)
    for env in range(4):
        matrix = rotations[env].as_matrix()
        for first in (0, 4):
            vectors = points[env, :, first : first + 3].double().numpy()
            tolerance = HALF_SPACING_F16 if half else 1e-6
            np.testing.assert_allclose(
                result[env, :, first : first + 3].double(), vectors @ matrix.T, rtol=tolerance, atol=1e-6
            )
    assert result.dtype == points.dtype
    assert torch.equal(result[..., [3, 7]], points[..., [3, 7]])


def test_rotate_leaves_other_features_without_normals():
    points = rand(0, 2, 5, 6)
    quat = torch.tensor([[0.0, 0.0, 1.0, 0.0]]).expand(2, 4)
    result = rotate(points, quat)
    torch.testing.assert_close(result[..., :3], points[..., :3] * torch.tensor([-1.0, -1.0, 1.0]))
    assert torch.equal(result[..., 3:], points[..., 3:])


@given(seed=seeds, max_angle=st.floats(0.01, math.pi))
def test_random_rotation_keeps_its_axis_and_its_limit(seed, max_angle):
    axis = rand(seed, 3).double().numpy() + np.array([0, 0, 2])
    quat = random_rotation(500, tuple(axis), max_angle, generator=torch.Generator().manual_seed(seed))
    vectors = Rotation.from_quat(quat.double().numpy()).as_rotvec()
    angle = vectors @ axis / np.linalg.norm(axis)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), abs(angle), atol=1e-5)
    assert (abs(angle) <= max_angle + 1e-5).all()
    # Uniform: of 500 draws the largest comes close to the limit on either side.
    assert angle.max() > 0.9 * max_angle
    assert angle.min() < -0.9 * max_angle


@given(seed=seeds, half=st.booleans())
def test_jitter_is_clipped_and_spares_features(seed, half):
    points = rand(seed, 8, 64, 5).to(torch.float16 if half else torch.float32)
    result = jitter(points, sigma=0.02, clip=0.03, generator=torch.Generator().manual_seed(seed))
    moved = (result - points)[..., :3].float()
    rounding = HALF_SPACING_F16 if half else 1e-6
    assert moved.abs().max() <= 0.03 + rounding
    # Of a normal distribution 13.4 % lies beyond 1.5 standard deviations, and is clipped there.
    clipped = (moved.abs() > 0.03 - 2 * rounding).float().mean()
    assert 0.08 < clipped < 0.22
    assert abs(moved.mean()) < 0.003
    assert result.dtype == points.dtype
    assert torch.equal(result[..., 3:], points[..., 3:])


@given(seed=seeds, max_ratio=st.floats(0.0, 1.0), num_points=st.integers(1, 40))
def test_drop_points_puts_the_first_kept_one_in_place(seed, max_ratio, num_points):
    points = rand(seed, 16, num_points, 4)
    result = drop_points(points, max_ratio, generator=torch.Generator().manual_seed(seed))
    same = (result == points).all(-1)
    assert same.any(dim=1).all(), "at least one point stays"
    first = same.int().argmax(dim=1)
    for env in range(16):
        replaced = result[env][~same[env]]
        assert torch.equal(replaced, points[env, first[env]].expand_as(replaced))


def test_drop_points_drops_the_share_of_each_cloud():
    same = drop_points(rand(0, 400, 500, 3), 0.8, generator=torch.Generator().manual_seed(0)) == rand(0, 400, 500, 3)
    dropped = 1.0 - same.all(-1).float().mean(dim=1)
    assert 0.3 < same.all(-1)[:, 0].float().mean() < 0.9, "the first point is dropped like any other"
    assert dropped.max() < 0.9
    assert dropped.min() < 0.05
    assert 0.36 < dropped.mean() < 0.44


def test_dropping_everything_keeps_a_point_of_the_cloud():
    points = rand(1, 300, 2, 3)
    result = drop_points(points, 1.0, generator=torch.Generator().manual_seed(0))
    assert (result[:, :, None] == points[:, None]).all(-1).any(-1).all()


AUGMENTATIONS: list[Callable[[torch.Tensor, torch.Generator], torch.Tensor]] = [
    lambda points, generator: rotate(points, random_rotation(points.shape[0], generator=generator)),
    lambda points, generator: jitter(points, 0.01, 0.05, generator=generator),
    lambda points, generator: drop_points(points, generator=generator),
]


@pytest.mark.parametrize("augment", AUGMENTATIONS)
def test_equal_generators_give_equal_clouds(augment):
    points = rand(0, 3, 32, 3)
    first, again, other = (augment(points, torch.Generator().manual_seed(seed)) for seed in (5, 5, 6))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("augment", [*AUGMENTATIONS, lambda points, _: normalize(points, (0, 0, 0), (1, 1, 1))])
def test_inputs_stay_and_gradients_flow(augment):
    points = rand(0, 3, 32, 6).requires_grad_()
    before = points.detach().clone()
    result = augment(points, torch.Generator().manual_seed(0))
    assert result.shape == points.shape
    result.square().sum().backward()
    assert points.grad is not None
    assert (points.grad.abs().sum(dim=(1, 2)) > 0).all()
    assert torch.equal(points.detach(), before)


# Neighbours


@given(seed=seeds, num_clouds=st.integers(1, 4), num_points=st.integers(1, 60), num_centers=st.integers(1, 12))
def test_knn_finds_what_a_tree_finds(seed, num_clouds, num_points, num_centers):
    points, centers = rand(seed, num_clouds, num_points, 4), rand(seed + 1, num_clouds, num_centers, 3)
    k = seed % num_points + 1
    result = knn(points, centers, k)
    assert result.indices.shape == result.mask.shape == (num_clouds, num_centers, k)
    assert result.mask.all()
    squared = squared_distances(points, centers)
    distances = np.sqrt(np.take_along_axis(squared, result.indices.numpy(), -1))
    for env in range(num_clouds):
        tree = KDTree(points[env, :, :3].double().numpy())
        expected, _ = tree.query(centers[env].double().numpy(), k=k)
        np.testing.assert_allclose(distances[env], np.reshape(expected, (num_centers, k)), atol=1e-6)
    assert (np.sort(result.indices.numpy(), -1)[..., 1:] != np.sort(result.indices.numpy(), -1)[..., :-1]).all()


@given(seed=seeds, num_points=st.integers(1, 80), with_count=st.booleans(), half=st.booleans())
def test_knn_breaks_ties_by_index_and_ignores_padding(seed, num_points, with_count, half):
    points, centers = lattice(seed, 3, num_points, 3), lattice(seed + 1, 3, 6, 3)
    if half:
        points, centers = points.half(), centers.half()
    k = seed % num_points + 1
    count = torch.tensor([0, num_points, 1 + seed % num_points], dtype=torch.int32) if with_count else None
    result = knn(points, centers, k, count)
    squared = squared_distances(points, centers)
    for env in range(3):
        real = num_points if count is None else int(count[env])
        expected = np.argsort(squared[env][:, :real], axis=1, kind="stable")[:, :k]
        found = min(real, k)
        np.testing.assert_array_equal(result.indices[env][:, :found], expected)
        assert (result.mask[env] == (torch.arange(k) < found)).all()
        filler = result.indices[env][:, :1] if found else torch.zeros(6, 1, dtype=torch.int64)
        assert (result.indices[env][:, found:] == filler).all()


@given(
    seed=seeds,
    num_points=st.integers(1, 80),
    with_count=st.booleans(),
    radius=st.sampled_from([0.5, 1.2, 2.1, 9.0]),
    half=st.booleans(),
)
def test_ball_query_takes_the_first_points_of_the_ball(seed, num_points, with_count, radius, half):
    points, centers = lattice(seed, 3, num_points, 5), lattice(seed + 1, 3, 6, 3, side=7)
    if half:
        points, centers = points.half(), centers.half()
    k = seed % num_points + 1
    count = torch.tensor([0, num_points, 1 + seed % num_points]) if with_count else None
    result = ball_query(points, centers, radius, k, count)
    squared = squared_distances(points, centers)
    for env in range(3):
        real = num_points if count is None else int(count[env])
        for query in range(6):
            inside = np.flatnonzero(squared[env, query, :real] < radius**2)[:k]
            filler = [inside[0] if len(inside) else 0] * (k - len(inside))
            np.testing.assert_array_equal(result.indices[env, query], [*inside, *filler])
            assert result.mask[env, query].sum() == len(inside)
            assert result.mask[env, query, : len(inside)].all()


@given(seed=seeds, radius=st.floats(0.1, 1.5))
def test_ball_query_finds_what_a_tree_finds(seed, radius):
    points, centers = rand(seed, 2, 50, 3), rand(seed + 1, 2, 8, 3)
    result = ball_query(points, centers, radius, k=50)
    for env in range(2):
        tree = KDTree(points[env].double().numpy())
        sure = tree.query_ball_point(centers[env].double().numpy(), radius - 1e-6)
        possible = tree.query_ball_point(centers[env].double().numpy(), radius + 1e-6)
        for query in range(8):
            found = set(result.indices[env, query][result.mask[env, query]].tolist())
            assert set(sure[query]) <= found <= set(possible[query])


def test_points_at_the_radius_are_outside():
    points = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 0.0, 0.999]]])
    result = ball_query(points, torch.zeros(1, 1, 3), 1.0, k=2)
    assert result.indices.tolist() == [[[1, 1]]]
    assert result.mask.tolist() == [[[True, False]]]


def test_near_points_far_from_the_origin_are_told_apart():
    """A matrix product of the coordinates, as torch.cdist may take it, cannot tell these points apart."""
    points = torch.tensor([100.0, 50.0, 20.0]) + lattice(0, 1, 200, 3) * 2.0**-10
    centers = points[:, :40]
    found = gather_points(points, knn(points, centers, 1).indices)[:, :, 0]
    assert torch.equal(found, centers)


def searches() -> list[Callable[..., Neighbors]]:
    return [
        lambda points, centers, count=None: knn(points, centers, 8, count),
        lambda points, centers, count=None: ball_query(points, centers, 0.8, 8, count),
    ]


@pytest.mark.parametrize("search", searches())
@pytest.mark.parametrize("pairs", [1, 30 * 7, 30 * 20 * 3])
def test_slices_do_not_show(search, pairs, monkeypatch):
    points, centers = rand(0, 10, 30, 3), rand(1, 10, 20, 3)
    count = torch.arange(10) * 3
    whole = search(points, centers, count)
    monkeypatch.setattr(cloud_ops, "_CPU_SLICE_BYTES", pairs * cloud_ops._PAIR_BYTES)
    sliced = search(points, centers, count)
    assert torch.equal(whole.indices, sliced.indices)
    assert torch.equal(whole.mask, sliced.mask)


@pytest.mark.parametrize("search", searches())
def test_clouds_do_not_influence_each_other(search):
    points, centers = rand(0, 6, 30, 3), rand(1, 6, 20, 3)
    order = torch.tensor([3, 0, 5, 5, 1])
    assert torch.equal(search(points[order], centers[order]).indices, search(points, centers).indices[order])


@pytest.mark.parametrize("search", searches())
@pytest.mark.parametrize(("num_clouds", "num_points", "num_centers"), [(64, 128, 32), (2, 1024, 64)])
def test_no_tensor_outgrows_a_slice(search, num_clouds, num_points, num_centers, monkeypatch):
    monkeypatch.setattr(cloud_ops, "_CPU_SLICE_BYTES", 1 << 16)
    points, centers = rand(0, num_clouds, num_points, 3), rand(1, num_clouds, num_centers, 3)
    result = search(points, centers)
    largest = 0

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal largest
            out = func(*args, **(kwargs or {}))
            for tensor in out if isinstance(out, tuple | list) else (out,):
                if isinstance(tensor, torch.Tensor):
                    largest = max(largest, tensor.untyped_storage().nbytes())
            return out

    with Watch():
        search(points, centers)
    output = result.indices.untyped_storage().nbytes()
    assert largest <= max(output, 1 << 16)
    assert 4 * num_clouds * num_points * num_centers >= 4 * max(output, 1 << 16), "all distances would be larger"


@given(seed=seeds, shape=st.lists(st.integers(1, 4), min_size=1, max_size=3), channels=st.integers(1, 5))
def test_gather_points_takes_rows(seed, shape, channels):
    points = rand(seed, 3, 10, channels)
    indices = torch.randint(0, 10, (3, *shape), generator=torch.Generator().manual_seed(seed))
    result = gather_points(points, indices)
    expected = torch.stack([points[env][indices[env]] for env in range(3)])
    assert torch.equal(result, expected)


def test_gather_points_passes_gradients():
    points = rand(0, 1, 3, 3).requires_grad_()
    gather_points(points, torch.tensor([[2, 2, 0]])).sum().backward()
    assert points.grad is not None
    assert points.grad[0, :, 0].tolist() == [1.0, 0.0, 2.0]


# Bad input

CLOUD = torch.zeros(2, 5, 6)
QUAT = torch.tensor([[0.0, 0.0, 0.0, 1.0]]).expand(2, 4)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: normalize(CLOUD[0], (0, 0, 0), (1, 1, 1)), ValueError, r"points has shape \(5, 6\): expected \(N, K"),
        (lambda: normalize(CLOUD[..., :2], (0, 0, 0), (1, 1, 1)), ValueError, r"points has shape \(2, 5, 2\)"),
        (lambda: normalize(CLOUD[:, :0], (0, 0, 0), (1, 1, 1)), ValueError, r"points has shape \(2, 0, 6\)"),
        (lambda: normalize(CLOUD.int(), (0, 0, 0), (1, 1, 1)), TypeError, r"points has dtype torch.int32"),
        (lambda: normalize(CLOUD, (0, 0, 1), (1, 1, 1)), ValueError, r"lower=\(0, 0, 1\).*lower below upper"),
        (lambda: normalize(CLOUD, (0, 0), (1, 1)), ValueError, "three values"),
        (lambda: rotate(CLOUD, QUAT[0]), ValueError, r"quat has shape \(4,\): expected \(2, 4\)"),
        (lambda: rotate(CLOUD, QUAT.int()), TypeError, "quat has dtype torch.int32"),
        (lambda: rotate(CLOUD, QUAT, normals=4), ValueError, r"normals=4.*\(2, 5, 6\)"),
        (lambda: rotate(CLOUD, QUAT, normals=0), ValueError, "normals=0"),
        (lambda: random_rotation(2, (0, 0, 0)), ValueError, r"axis=\(0, 0, 0\)"),
        (lambda: random_rotation(2, (0, 1)), ValueError, r"axis=\(0, 1\)"),
        (lambda: jitter(CLOUD, -1.0, 1.0), ValueError, r"sigma=-1.0"),
        (lambda: jitter(CLOUD, 1.0, math.nan), ValueError, r"clip=nan"),
        (lambda: drop_points(CLOUD, 1.5), ValueError, "max_ratio=1.5"),
        (lambda: knn(CLOUD, CLOUD[:1], 2), ValueError, r"centers has shape \(1, 5, 6\): expected \(2, Q"),
        (lambda: knn(CLOUD[0, 0], CLOUD, 2), ValueError, r"points has shape \(6,\)"),
        (lambda: knn(CLOUD, CLOUD[0], 2), ValueError, r"centers has shape \(5, 6\)"),
        (lambda: knn(CLOUD, CLOUD, 6), ValueError, r"k=6: expected 1 to 5"),
        (lambda: knn(CLOUD, CLOUD, 0), ValueError, r"k=0"),
        (lambda: knn(CLOUD, CLOUD, 2, torch.ones(3).int()), ValueError, r"count has shape \(3,\): expected \(2,\)"),
        (lambda: knn(CLOUD, CLOUD, 2, torch.ones(2)), TypeError, "count has dtype torch.float32"),
        (lambda: knn(CLOUD, CLOUD.to("meta"), 2), ValueError, "centers is on meta: expected cpu"),
        (lambda: ball_query(CLOUD, CLOUD, 0.0, 2), ValueError, "radius=0.0"),
        (lambda: ball_query(CLOUD, CLOUD, math.nan, 2), ValueError, "radius=nan"),
        (lambda: ball_query(CLOUD, CLOUD, 1.0, 6), ValueError, "k=6"),
        (lambda: gather_points(CLOUD[0], torch.zeros(2, 1).long()), ValueError, r"points has shape \(5, 6\)"),
        (lambda: gather_points(CLOUD, torch.zeros(3, 1).long()), ValueError, r"indices has shape \(3, 1\)"),
        (lambda: gather_points(CLOUD, torch.zeros(2, 1)), TypeError, "indices has dtype torch.float32"),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


@settings(max_examples=20)
@given(seed=seeds)
def test_non_contiguous_clouds_give_the_same(seed):
    points, centers = rand(seed, 40, 3, 2).transpose(0, 2), rand(seed + 1, 9, 3, 2).transpose(0, 2)
    points, centers = points.transpose(1, 2), centers.transpose(1, 2)
    for search in searches():
        assert torch.equal(search(points, centers).indices, search(points.contiguous(), centers.contiguous()).indices)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_finds_the_same_neighbours_inside_a_graph():
    points, centers = lattice(0, 64, 200, 3), lattice(1, 64, 30, 3)
    count = torch.randint(0, 201, (64,), generator=torch.Generator().manual_seed(0))
    arguments = points.cuda(), centers.cuda()
    on_gpu = count.cuda()
    torch.cuda.synchronize()
    for search in searches():
        search(*arguments, on_gpu)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = search(*arguments, on_gpu)
        graph.replay()
        expected = search(points, centers, count)
        assert torch.equal(result.indices.cpu(), expected.indices)
        assert torch.equal(result.mask.cpu(), expected.mask)
