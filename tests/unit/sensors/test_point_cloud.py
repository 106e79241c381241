# SPDX-License-Identifier: BSD-3-Clause
"""The cloud operator against a float64 reference."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.sensors import PointCloud, PointCloudCfg

MISSES = (0.0, -1.0, float("inf"), float("nan"))


def scene(seed: int, num_envs: int, height: int, width: int) -> dict[str, torch.Tensor]:
    """Random cameras, depth with misses, labels and frames."""
    rng = np.random.default_rng(seed)
    depth = rng.uniform(0.2, 2.0, (num_envs, height, width))
    missing = rng.random(depth.shape) < 0.2
    depth[missing] = rng.choice(MISSES, missing.sum())
    intrinsics = np.zeros((num_envs, 3, 3))
    intrinsics[:, 0, 0], intrinsics[:, 1, 1] = rng.uniform(20, 200, (2, num_envs))
    intrinsics[:, 0, 2], intrinsics[:, 1, 2] = rng.uniform(0, width, num_envs), rng.uniform(0, height, num_envs)
    intrinsics[:, 2, 2] = 1.0
    arrays = {
        "depth": depth,
        "intrinsics": intrinsics,
        "camera_pos": rng.uniform(-1, 1, (num_envs, 3)),
        "camera_quat": Rotation.random(num_envs, rng=rng).as_quat(),
        "origin": rng.uniform(-20, 20, (num_envs, 3)),
        "frame_pos": rng.uniform(-1, 1, (num_envs, 3)),
        "frame_quat": Rotation.random(num_envs, rng=rng).as_quat(),
    }
    arrays["camera_pos"] += arrays["origin"]
    tensors = {name: torch.tensor(value, dtype=torch.float32) for name, value in arrays.items()}
    tensors["labels"] = torch.tensor(rng.integers(0, 3, depth.shape), dtype=torch.int32)
    tensors["removed"] = torch.tensor([False, True, False])
    tensors["draw"] = torch.arange(num_envs, dtype=torch.int32) * 7919 + seed
    return tensors


def reference(cfg: PointCloudCfg, inputs: dict[str, torch.Tensor], env: int) -> tuple[np.ndarray, np.ndarray]:
    """Every valid pixel's point in the environment and output frames, float64, (M, 3) each."""
    get = {name: value[env].double().numpy() for name, value in inputs.items() if name not in ("removed", "draw")}
    height, width = get["depth"].shape
    u, v = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
    rays = np.stack([u, v, np.ones_like(u)], -1).reshape(-1, 3) @ np.linalg.inv(get["intrinsics"]).T
    z = get["depth"].ravel()
    keep = (z > 0) & np.isfinite(z) & (get["labels"].ravel() != 1)
    in_camera = rays[keep] * z[keep, None]
    camera = Rotation.from_quat(get["camera_quat"])
    points = camera.apply(in_camera) + get["camera_pos"] - get["origin"]
    inside = ((points >= cfg.crop_lower) & (points <= cfg.crop_upper)).all(1)
    points = points[inside]
    return points, Rotation.from_quat(get["frame_quat"]).inv().apply(points - get["frame_pos"])


def nearest(points: np.ndarray, candidates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distance to and index of the nearest candidate of each point."""
    distance = np.linalg.norm(points[:, None] - candidates[None], axis=-1)
    return distance.min(1), distance.argmin(1)


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**31 - 1),
    num_envs=st.integers(1, 5),
    height=st.integers(1, 24),
    width=st.integers(1, 24),
    num_points=st.integers(1, 64),
)
def test_every_point_is_a_distinct_valid_pixel(
    seed: int, num_envs: int, height: int, width: int, num_points: int
) -> None:
    num_points = min(num_points, height * width)
    cfg = PointCloudCfg(num_points=num_points, dtype="float32", crop_lower=(-0.8, -0.9, -1.0), crop_upper=(0.9, 1, 1.1))
    inputs = scene(seed, num_envs, height, width)
    cloud = PointCloud(cfg, num_envs, "cpu", seed)
    points = cloud(**inputs)
    assert points.shape == (num_envs, num_points, 3)
    for env in range(num_envs):
        expected = reference(cfg, inputs, env)[1]
        count = int(cloud.count[env])
        # A pixel on the crop's border may fall on either side in float32.
        assert abs(count - min(len(expected), num_points)) <= 1
        if count == 0:
            assert not points[env].any()
            continue
        got = points[env].double().numpy()
        distance, index = nearest(got[:count], expected) if len(expected) else (np.zeros(0), np.zeros(0))
        assert (distance < 1e-4).all()
        assert len(set(index.tolist())) == count
        repeats = got[np.arange(num_points) % count]
        np.testing.assert_array_equal(got, repeats)


def test_the_same_draw_gives_the_same_cloud_and_another_draw_another() -> None:
    cfg = PointCloudCfg(num_points=16, dtype="float32", crop_lower=(-9, -9, -9), crop_upper=(9, 9, 9))
    inputs = scene(3, 2, 20, 20)
    cloud = PointCloud(cfg, 2, "cpu", seed=5)
    first = cloud(**inputs)
    assert torch.equal(first, cloud(**inputs))
    inputs["draw"] = inputs["draw"] + 1
    assert not torch.equal(first, cloud(**inputs))


def test_environments_do_not_influence_each_other() -> None:
    cfg = PointCloudCfg(num_points=16, dtype="float32", crop_lower=(-9, -9, -9), crop_upper=(9, 9, 9))
    inputs = scene(4, 6, 12, 12)
    clouds = PointCloud(cfg, 6, "cpu", seed=5)(**inputs)
    order = torch.tensor([4, 1, 5, 0, 3, 2])
    permuted = {name: value if name == "removed" else value[order] for name, value in inputs.items()}
    assert torch.equal(PointCloud(cfg, 6, "cpu", seed=5)(**permuted), clouds[order])


def test_pixels_are_drawn_uniformly() -> None:
    cfg = PointCloudCfg(num_points=8, dtype="float32", crop_lower=(-9, -9, -9), crop_upper=(9, 9, 9))
    num_envs, height, width = 4000, 4, 4
    inputs = {name: value for name, value in scene(0, 1, height, width).items() if name not in ("labels", "removed")}
    inputs = {name: value.repeat(num_envs, *[1] * (value.dim() - 1)) for name, value in inputs.items()}
    inputs["depth"] = torch.arange(1.0, 17.0).view(1, 4, 4).repeat(num_envs, 1, 1) / 8
    inputs["draw"] = torch.randint(0, 2**31 - 1, (num_envs,), generator=torch.Generator().manual_seed(1)).int()
    points = PointCloud(cfg, num_envs, "cpu", seed=1)(**inputs)
    expected = reference(cfg, {**inputs, "labels": torch.zeros(num_envs, 4, 4)}, 0)[1]
    _, index = nearest(points.reshape(-1, 3).double().numpy(), expected)
    share = np.bincount(index, minlength=16) / num_envs
    # Each of 16 pixels is among the 8 drawn with probability 1/2; the bound is five standard errors.
    np.testing.assert_allclose(share, 0.5, atol=5 * 0.5 / np.sqrt(num_envs))


def test_float16_rounds_within_its_documented_bound() -> None:
    bounds = {"num_points": 64, "crop_lower": (-1.0, -1, -1), "crop_upper": (1.0, 1, 1)}
    inputs = scene(9, 3, 16, 16)
    inputs["frame_pos"].zero_()
    single = PointCloud(PointCloudCfg(dtype="float32", **bounds), 3, "cpu")(**inputs)
    half = PointCloud(PointCloudCfg(dtype="float16", **bounds), 3, "cpu")(**inputs)
    assert half.dtype == torch.float16
    inside = single.abs() <= 1.0
    assert (half.float() - single)[inside].abs().max() <= 0.25e-3


def test_returned_clouds_are_not_overwritten_by_the_next_call() -> None:
    cfg = PointCloudCfg(num_points=4, dtype="float32", crop_lower=(-9, -9, -9), crop_upper=(9, 9, 9))
    cloud = PointCloud(cfg, 2, "cpu")
    first = cloud(**scene(1, 2, 8, 8))
    kept = first.clone()
    cloud(**scene(2, 2, 8, 8))
    assert torch.equal(first, kept)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_points": 0}, "num_points=0"),
        ({"num_points": 65}, "8 x 8 = 64"),
        ({"num_points": 8, "crop_lower": (0.0, 1.0, 0.0), "crop_upper": (1.0, 1.0, 1.0)}, "along y"),
    ],
)
def test_an_impossible_cloud_is_refused(changes: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        PointCloudCfg(**changes).check(8, 8)
