# SPDX-License-Identifier: BSD-3-Clause
"""The cloud operator against a float64 reference and Open3D, and what holds for every sampler."""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.sensors.cloud import Cloud
from isaaclab_pc.sensors.cloud_checks import SAMPLERS
from isaaclab_pc.sensors.depth_to_cloud import DepthToCloud
from tests.unit.sensors.cloud_reference import MISSES, Scene, random_scene, reference

every_sampler = pytest.mark.parametrize("sampler", SAMPLERS)


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


def same(one: Cloud, other: Cloud) -> bool:
    """Whether two clouds are equal to the last bit."""
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in ("points", "count", "pixels"))


def kept(cloud: Cloud) -> Cloud:
    """Copy a cloud before the next call."""
    return Cloud(cloud.points.clone(), cloud.count.clone(), cloud.pixels.clone())


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    num_envs=st.integers(1, 4),
    sizes=st.lists(st.tuples(st.integers(1, 16), st.integers(1, 16)), min_size=1, max_size=3),
    share=st.floats(0, 1),
    sampler=st.sampled_from(SAMPLERS),
    frames=st.booleans(),
    labelled=st.booleans(),
    lenses=st.booleans(),
)
def test_points_are_distinct_valid_pixels_at_their_places(
    seed: int,
    num_envs: int,
    sizes: list[tuple[int, int]],
    share: float,
    sampler: str,
    frames: bool,
    labelled: bool,
    lenses: bool,
) -> None:
    scene = random_scene(seed, num_envs, sizes, frames=frames, labelled=labelled, lenses=lenses)
    num_points = max(1, round(share * scene.num_pixels))
    assert_matches_reference(scene, scene.cloud(num_points, sampler=sampler), num_points)


@every_sampler
@pytest.mark.parametrize(
    ("num_envs", "sizes", "num_points"),
    [
        (1, [(1, 1)], 1),
        (1, [(256, 256)], 1000),
        (2, [(256, 1), (3, 200), (64, 48)], 512),
        (1024, [(5, 7)], 8),
    ],
)
def test_from_one_pixel_and_environment_to_many(
    sampler: str, num_envs: int, sizes: list[tuple[int, int]], num_points: int
) -> None:
    scene = random_scene(num_envs, num_envs, sizes)
    assert_matches_reference(scene, scene.cloud(num_points, sampler=sampler), num_points)


def test_all_points_are_those_of_open3d(monkeypatch: pytest.MonkeyPatch) -> None:
    # Open3D sets it when it is imported.
    monkeypatch.setenv("TCM_ENABLE", "1")
    o3d = pytest.importorskip("open3d", exc_type=ImportError)
    height, width = 48, 64
    scene = random_scene(5, 3, [(height, width)], frames=False, cropped=False)
    cloud = scene.cloud(height * width, crop_lower=(-math.inf,) * 3, crop_upper=(math.inf,) * 3)
    for env in range(3):
        fx, fy = scene.tensors["intrinsics"][env, 0].diagonal()[:2].tolist()
        cx, cy = scene.tensors["intrinsics"][env, 0, :2, 2].tolist()
        # Open3D unprojects at whole pixel coordinates; the centre of pixel u is u + 0.5.
        camera = o3d.camera.PinholeCameraIntrinsic(width, height, fx, fy, cx - 0.5, cy - 0.5)
        world_to_camera = np.eye(4)
        rotation = Rotation.from_quat(scene.tensors["camera_quat"][env, 0].double().numpy()).inv()
        world_to_camera[:3, :3] = rotation.as_matrix()
        world_to_camera[:3, 3] = -rotation.apply(scene.tensors["camera_pos"][env, 0].double().numpy())
        depth = scene.depth[0][env]
        image = o3d.geometry.Image(torch.where(depth.isfinite() & (depth > 0), depth, 0).numpy())
        theirs = o3d.geometry.PointCloud.create_from_depth_image(
            image, camera, world_to_camera, depth_scale=1.0, depth_trunc=10.0
        )
        count = int(cloud.count[env])
        # Open3D goes row by row.
        order = cloud.pixels[env, :count].argsort()
        ours = cloud.points[env, :count][order].double().numpy()
        np.testing.assert_allclose(ours, np.asarray(theirs.points), rtol=0, atol=1e-5)


@every_sampler
def test_a_key_gives_one_cloud_and_another_key_another(sampler: str) -> None:
    scene = random_scene(3, 2, [(20, 20)], cropped=False)
    operator = scene.operator(16, sampler=sampler)
    first = kept(scene.sample(operator))
    assert same(first, scene.sample(operator))
    assert same(first, scene.cloud(16, sampler=sampler))
    other = scene.sample(operator, keys=scene.tensors["keys"] + 1)
    assert (first.pixels != other.pixels).any(1).all()


@every_sampler
def test_environments_permuted_with_their_keys_permute_the_clouds(sampler: str) -> None:
    scene = random_scene(4, 6, [(12, 12), (5, 9)], labelled=True)
    order = [4, 1, 5, 0, 3, 2]
    whole = scene.cloud(16, sampler=sampler)
    permuted = scene.envs(order).cloud(16, sampler=sampler)
    assert same(permuted, Cloud(whole.points[order], whole.count[order], whole.pixels[order]))


@every_sampler
def test_masked_environments_keep_their_cloud(sampler: str) -> None:
    first, second = (random_scene(seed, 4, [(12, 12)], cropped=False) for seed in (1, 2))
    operator = first.operator(16, sampler=sampler)
    before, fresh = kept(first.sample(operator)), second.cloud(16, sampler=sampler)
    mask = torch.tensor([True, False, True, False])
    after = second.sample(operator, mask=mask)
    for name in ("points", "count", "pixels"):
        old, new, got = (getattr(cloud, name) for cloud in (before, fresh, after))
        assert torch.equal(got, torch.where(mask.view(-1, *[1] * (old.dim() - 1)), new, old))
    assert same(kept(after), second.sample(operator, mask=torch.zeros(4, dtype=torch.bool)))


def test_returned_points_are_not_overwritten_by_the_next_call() -> None:
    for dtype in ("float16", "float32"):
        scene = random_scene(1, 2, [(8, 8)])
        operator = scene.operator(4, dtype=dtype)
        points = scene.sample(operator).points
        before = points.clone()
        scene.sample(operator, keys=scene.tensors["keys"] + 1)
        assert torch.equal(points, before)


@every_sampler
@pytest.mark.parametrize("miss", [*MISSES, 9.0, 1e6, 3e38])
def test_misses_give_no_point(sampler: str, miss: float) -> None:
    scene = random_scene(8, 2, [(8, 8)], misses=0.0, cropped=False)
    scene.depth[0][0, :, 4:] = miss
    scene.depth[0][1] = miss
    cloud = scene.cloud(32, sampler=sampler, far=9.0)
    assert cloud.count.tolist() == [32, 0]
    assert sorted(cloud.pixels[0].tolist()) == [pixel for pixel in range(64) if pixel % 8 < 4]
    assert cloud.points[0].isfinite().all()
    assert not cloud.points[1].any()


def test_pixels_of_a_mask_give_no_point() -> None:
    scene = random_scene(3, 2, [(4, 6), (5, 3)], misses=0.0, cropped=False)
    masks = [torch.rand(image.shape, generator=torch.Generator().manual_seed(0)) < 0.5 for image in scene.depth]
    cloud = scene.sample(scene.operator(39), labels=masks)
    for env in range(2):
        kept = torch.cat([~mask[env].flatten() for mask in masks]).nonzero()[:, 0].tolist()
        assert sorted(cloud.pixels[env, : cloud.count[env]].tolist()) == kept


def test_each_camera_may_number_the_classes_its_own_way() -> None:
    scene = random_scene(2, 1, [(1, 3), (1, 3)], misses=0.0, cropped=False)
    labels = torch.tensor([0, 1, 2], dtype=torch.int32).view(1, 1, 1, 3).expand(1, 2, 1, 3)
    removed = torch.tensor([[False, True, False], [True, False, True]])
    cloud = scene.sample(scene.operator(6), labels=labels, removed=removed)
    assert sorted(cloud.pixels[0, : cloud.count[0]].tolist()) == [0, 2, 3 + 1]


@every_sampler
def test_broken_poses_give_no_cloud(sampler: str) -> None:
    scene = random_scene(2, 3, [(8, 8)], cropped=False)
    scene.tensors["camera_quat"][0, 0, 1] = math.nan
    scene.tensors["intrinsics"][1, 0, 0, 0] = 0.0
    cloud = scene.cloud(16, sampler=sampler)
    assert cloud.count.tolist()[:2] == [0, 0]
    assert cloud.count[2] > 0
    assert cloud.points.isfinite().all()


def test_points_that_overflow_are_cropped() -> None:
    scene = random_scene(2, 3, [(8, 8)], misses=0.0, cropped=False)
    for dtype, depth in (("float16", 1e5), ("float32", 3e38)):
        far = [torch.full_like(image, depth) for image in scene.depth]
        far[0][:, 0] = 1.0
        operator = scene.operator(16, dtype=dtype, crop_lower=(-math.inf,) * 3, crop_upper=(math.inf,) * 3)
        cloud = scene.sample(operator, depth=far)
        assert cloud.count.tolist() == [8] * 3
        assert cloud.points.isfinite().all()


@every_sampler
def test_points_60_km_away_are_where_they_are_or_cropped(sampler: str) -> None:
    scene = random_scene(2, 3, [(8, 8)], misses=0.0, cropped=False, frames=False)
    scene.depth[0][:, :, 1:] = 6e4
    wide: Any = {"crop_lower": (-1e6,) * 3, "crop_upper": (1e6,) * 3, "voxel_size": 2000.0, "sampler": sampler}
    scene = replace(scene, settings=wide)
    assert_matches_reference(scene, scene.cloud(16), 16)
    assert scene.cloud(16, dtype="float16").count.tolist() == [8] * 3


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=20)
def test_float16_rounds_within_its_documented_bound(seed: int) -> None:
    scene = random_scene(seed, 2, [(12, 12)])
    single, half = (scene.cloud(64, dtype=dtype).points for dtype in ("float32", "float16"))
    assert half.dtype == torch.float16
    error = (half.double() - single.double()).abs()
    # Below 2^-14 float16 has a fixed spacing of 2^-24.
    assert (error <= (single.abs().double() * 2**-11).clamp_min(2**-25)).all()
    assert (error[single.abs() <= 1.0] <= 0.25e-3).all()


def test_a_tensor_of_all_cameras_is_a_list_of_images() -> None:
    scene = random_scene(9, 3, [(6, 8), (6, 8)], labelled=True)
    assert scene.labels is not None
    listed = scene.cloud(10)
    operator = scene.operator(10)
    stacked = scene.sample(operator, depth=torch.stack(scene.depth, 1), labels=torch.stack(scene.labels, 1))
    assert same(listed, stacked)


def test_small_arguments_may_be_views_and_need_gradients() -> None:
    scene = random_scene(9, 4, [(6, 8)])
    expected = scene.cloud(10)
    changes: dict[str, Any] = {name: tensor.repeat_interleave(2, 0)[::2] for name, tensor in scene.tensors.items()}
    changes["intrinsics"] = changes["intrinsics"].clone().requires_grad_()
    changes["depth"] = torch.cat([scene.depth[0], scene.depth[0]], 1).split(6, 1)[:1]
    cloud = scene.sample(scene.operator(10), **changes)
    assert same(expected, cloud)
    assert not cloud.points.requires_grad


def test_one_row_of_any_stride_is_contiguous() -> None:
    # torch calls (N, 1, W) with row stride 1 contiguous, and .contiguous() would not change it.
    scene = random_scene(9, 2, [(1, 8)])
    row = scene.depth[0].as_strided((2, 1, 8), (8, 3, 1))
    assert row.is_contiguous()
    assert same(scene.cloud(5), scene.sample(scene.operator(5), depth=[row]))


@pytest.fixture
def torch_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("torch_threads")
def test_one_thread_stays_one_thread() -> None:
    torch.set_num_threads(1)
    scene = random_scene(10, 64, [(64, 64)])
    operator = scene.operator(512, sampler="voxel")
    scene.sample(operator)

    spent = {thread.id: thread.user_time for thread in psutil.Process().threads()}
    most = 0.0
    while most < 0.3:
        scene.sample(operator)
        since = [thread.user_time - spent.get(thread.id, 0.0) for thread in psutil.Process().threads()]
        *others, most = sorted(since)

    # A second thread of the operator would have about as much; what pytest's own threads do is little.
    assert max(others, default=0.0) < 0.15


@every_sampler
@pytest.mark.usefixtures("torch_threads")
def test_a_call_needs_little_memory(sampler: str) -> None:
    peak_reset = Path("/proc/self/clear_refs")
    if not peak_reset.exists():
        pytest.skip("peak memory is read from Linux's /proc")
    torch.set_num_threads(2)
    scene = random_scene(11, 1, [(128, 128)], misses=0.0, cropped=False).envs([0] * 256)
    operator = scene.operator(256, sampler=sampler)
    candidates = 0 if sampler in ("random", "grid") else 4 * 256 * 256
    scene.sample(operator)
    bits = 256 * 128 * 128 / 8
    assert operator.nbytes == pytest.approx(16 * (256 * 256 + candidates) + bits, rel=0.02)
    before = psutil.Process().memory_info().rss
    peak_reset.write_text("5")
    cloud = scene.sample(operator)
    status = Path("/proc/self/status").read_text(encoding="utf-8").split()
    growth = int(status[status.index("VmHWM:") + 1]) * 1024 - before
    # A point image would be twelve bytes a pixel, 50 MiB.
    assert growth < 2 * cloud.points.nbytes + 80 * candidates + (2 << 20)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_envs": 0}, "num_envs=0 must be at least 1"),
        ({"num_points": 0}, "num_points=0 must be at least 1"),
        ({"num_points": 65}, "num_points=65 is more than the 8 x 8 = 64 pixels"),
        ({"image_sizes": []}, "no camera"),
        ({"image_sizes": [(8, 8), (0, 8)]}, "8 x 8 [+] 0 x 8 hold no pixels"),
        ({"sampler": "best"}, "sampler='best' is unknown: use one of random, grid, voxel, fps"),
        ({"crop_lower": (0.0, 1.0, 0.0), "crop_upper": (1.0, 1.0, 1.0)}, "empty along y: crop_lower 1.0 m"),
        ({"crop_upper": (1.0, 1.0, math.nan)}, "empty along z"),
        ({"crop_lower": (0.0, 1.0)}, r"crop_lower=\(0.0, 1.0\) has 2 values, expected 3"),
        ({"sampler": "voxel"}, "bounded on all sides"),
        ({"sampler": "voxel", "voxel_size": 0.0}, "voxel_size=0.0 m must be above 0"),
        ({"sampler": "voxel", "crop_lower": (-9,) * 3, "crop_upper": (9,) * 3, "voxel_size": 1e-3}, "2.31 voxels"),
        ({"near": -0.1}, "near=-0.1 m must be at least 0"),
        ({"near": 1.0, "far": 1.0}, "near=1.0 m must be at least 0 and below far=1.0 m"),
        ({"far": math.nan}, "far=nan"),
        ({"far": (1.0, 2.0)}, r"far=\(1.0, 2.0\) must be one depth .* each of the 1 cameras"),
        ({"dtype": "float64"}, "dtype='float64' is unknown: use float16 or float32"),
    ],
)
def test_an_impossible_cloud_is_refused(changes: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"num_envs": 2, "image_sizes": [(8, 8)], "num_points": 8}
    with pytest.raises(ConfigError, match=message):
        DepthToCloud(**{**arguments, **changes})


WRONG_TENSORS = [
    (
        "depth",
        lambda t: t[0][:, :, 0],
        ValueError,
        r"depth has shape \(2, 8\), expected \(N, C, H, W\) = \(2, 2, 8, 6\)",
    ),
    ("depth", lambda t: t[:1], ValueError, "depth has images of 1 cameras, expected 2"),
    ("depth", lambda t: [t[1], t[0]], ValueError, r"depth\[0\] has shape \(2, 5, 7\), expected \(2, 8, 6\)"),
    ("depth", lambda t: [t[0], t[1].double()], TypeError, r"depth\[1\] of shape .* is torch.float64"),
    ("depth", lambda t: [t[0], t[1].to("meta")], ValueError, r"depth\[1\] of shape .* is on meta, expected cpu"),
    ("depth", lambda t: [t[0].mT.contiguous().mT, t[1]], ValueError, r"not contiguous .* pass depth.contiguous\(\)"),
    ("labels", lambda t: None, ValueError, "labels and removed go together"),
    ("removed", lambda t: None, ValueError, "labels and removed go together"),
    # What a mask of 0 and 255 would remove depends on how it is read.
    ("labels", lambda t: [image.byte() for image in t], TypeError, "is torch.uint8, expected torch.int32"),
    ("removed", lambda t: t[None], ValueError, r"removed has shape \(1, 4\), expected \(2, 4\)"),
    ("intrinsics", lambda t: t[:, 0], ValueError, r"intrinsics has shape \(2, 3, 3\), expected \(2, 2, 3, 3\)"),
    ("keys", lambda t: t.long(), TypeError, r"keys of shape \(2,\) is torch.int64, expected torch.int32"),
    ("mask", lambda t: torch.ones(2), TypeError, r"mask of shape \(2,\) is torch.float32, expected torch.bool"),
    ("centers", lambda t: [torch.ones(8, 6, 2)], ValueError, "centers has tables of 1 cameras, expected 2"),
]


@pytest.mark.parametrize(("name", "change", "error", "message"), WRONG_TENSORS)
def test_a_wrong_tensor_is_named_in_any_frame(name: str, change: Any, error: type[Exception], message: str) -> None:
    scene = random_scene(0, 2, [(8, 6), (5, 7)], labelled=True)
    arguments = {"depth": scene.depth, "labels": scene.labels, "removed": scene.removed, **scene.tensors}
    operator = scene.operator(8)
    for _ in range(2):
        with pytest.raises(error, match=message):
            scene.sample(operator, **{name: change(arguments.get(name))})
        scene.sample(operator)
