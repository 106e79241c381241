# SPDX-License-Identifier: BSD-3-Clause
"""Features at a cloud's pixels, against known images and surfaces."""

import math
from unittest import mock

import numpy as np
import pytest
import torch
import warp as wp
from hypothesis import given, settings
from hypothesis import strategies as st
from isaaclab.utils.math import quat_apply, random_orientation

from isaaclab_pc.sensors.camera_matrices import ray_matrices
from isaaclab_pc.sensors.features import at_pixels, camera_of, estimate_normals

SIZES = [(4, 6), (3, 5)]


def test_pixels_are_numbered_through_all_cameras() -> None:
    images = [torch.arange(2 * h * w * 2).reshape(2, h, w, 2) + 1000 * camera for camera, (h, w) in enumerate(SIZES)]
    pixels = torch.tensor([[0, 23, 24, 38], [7, 30, 5, 24]], dtype=torch.int32)
    values = at_pixels(images, pixels)
    assert values.shape == (2, 4, 2)
    for env in range(2):
        for k, pixel in enumerate(pixels[env].tolist()):
            camera = int(pixel >= 24)
            row, column = divmod(pixel - 24 * camera, SIZES[camera][1])
            assert torch.equal(values[env, k], images[camera][env, row, column])
    assert camera_of(SIZES, pixels).tolist() == [[0, 0, 1, 1], [0, 1, 0, 1]]


def middles(height: int, width: int) -> torch.Tensor:
    """Middles of the pixels [px], shape (H, W, 2)."""
    return torch.stack(torch.meshgrid(torch.arange(width), torch.arange(height), indexing="xy"), dim=-1) + 0.5


def plane_scene(
    normal: torch.Tensor, height: int = 24, width: int = 32, centers: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Depth (N, H, W) of planes through (0, 0, 1) of cameras at random poses, their ray matrices and orientations."""
    n = len(normal)
    fx, fy, cx, cy = 40.0, 35.0, 14.0, 13.0
    intrinsics = torch.tensor([[fx, 0, cx], [0, fy, cy], [0, 0, 1]]).expand(n, 1, 3, 3)
    u, v = (middles(height, width) if centers is None else centers).unbind(-1)
    rays = torch.stack([(u - cx) / fx, (v - cy) / fy, torch.ones_like(u)], dim=-1)
    depth = normal[:, 2, None, None] / (rays @ normal.T).permute(2, 0, 1)
    generator = torch.Generator().manual_seed(0)
    pos = torch.rand(n, 1, 3, generator=generator)
    torch.manual_seed(0)
    quat = random_orientation(n, "cpu")
    return depth, ray_matrices(intrinsics, pos, quat[:, None]), quat


@pytest.mark.parametrize("bend", [0.0, 0.002])
def test_normals_of_planes_are_exact_and_face_the_camera(bend: float) -> None:
    from_center = middles(24, 32) - torch.tensor([14.0, 13.0])
    centers = middles(24, 32) + bend * from_center * from_center.norm(dim=-1, keepdim=True)
    generator = torch.Generator().manual_seed(3)
    tilt = torch.rand(16, 2, generator=generator) - 0.5
    normal = torch.nn.functional.normalize(torch.cat([tilt, -torch.ones(16, 1)], dim=1), dim=1)
    depth, matrices, quat = plane_scene(normal, centers=centers)
    pixels = torch.arange(24 * 32, dtype=torch.int32).expand(16, -1)
    estimated = estimate_normals([depth], matrices, pixels, centers=[centers] if bend else None)
    expected = quat_apply(quat, normal)[:, None].expand_as(estimated)
    torch.testing.assert_close(estimated, expected, atol=2e-4, rtol=0)


def test_normals_at_an_edge_are_those_of_one_surface() -> None:
    normal = torch.tensor([[0.0, 0.0, -1.0]])
    depth, matrices, quat = plane_scene(normal)
    depth[:, :, 16:] += 0.5
    depth[:, 5] = torch.tensor([0.0, torch.inf, torch.nan, -1.0]).repeat(8)
    estimated = estimate_normals([depth], matrices, torch.arange(24 * 32, dtype=torch.int32)[None])
    valid = (depth > 0) & depth.isfinite()
    expected = quat_apply(quat, normal)[:, None].expand_as(estimated)
    torch.testing.assert_close(estimated[valid.flatten(1)], expected[valid.flatten(1)], atol=2e-4, rtol=0)
    assert estimated.isfinite().all()


def reference_normal(depth: np.ndarray, matrix: np.ndarray, row: int, column: int) -> np.ndarray:
    """The rule of ``estimate_normals`` at one pixel of an image (H, W), in float64."""

    def read(v: int, u: int) -> float:
        inside = 0 <= v < depth.shape[0] and 0 <= u < depth.shape[1]
        return float(depth[v, u]) if inside and 0 < depth[v, u] < np.inf else np.inf

    def point(z: float, v: int, u: int) -> np.ndarray:
        return z * (matrix[:, :3].astype(np.float64) @ [u + 0.5, v + 0.5, 1.0])

    z = read(row, column)
    z = 1.0 if z == np.inf else z
    here = point(z, row, column)
    tangents = []
    for down, right in ((0, 1), (1, 0)):
        sides = [(abs(read(row + s * down, column + s * right) - z), -s) for s in (1, -1)]
        distance, sign = min(sides)
        way = np.zeros(3)
        if distance < np.inf:
            v, u = row - sign * down, column - sign * right
            way = -sign * (point(read(v, u), v, u) - here)
        tangents.append(way)
    normal = np.cross(*tangents)
    normal = normal if normal.any() else -here
    return normal / np.linalg.norm(normal) * (-1 if normal @ here > 0 else 1)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@given(num_envs=st.integers(1, 5), num_points=st.integers(1, 40), cameras=st.integers(1, 3), seed=st.integers(0, 2**31))
@settings(max_examples=40, deadline=None)
def test_normals_of_any_image_are_those_of_the_rule(
    device: str, num_envs: int, num_points: int, cameras: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    sizes = [(6, 7), (1, 5), (9, 4)][:cameras]
    depths = []
    for height, width in sizes:
        # Steps as of a real camera, so that both sides are often equally close, in images that are views.
        depth = 0.5 + 0.25 * torch.randint(0, 4, (num_envs, height, width, 2), generator=generator)
        miss = torch.tensor([0.0, torch.inf, torch.nan, -1.0])[torch.randint(0, 4, depth.shape, generator=generator)]
        depths.append(torch.where(torch.rand(depth.shape, generator=generator) < 0.2, miss, depth)[..., 0].to(device))
    k = torch.tensor([[5.0, 0, 3], [0, 6, 2], [0, 0, 1]]).expand(num_envs, cameras, 3, 3)
    quat = torch.randn(num_envs, cameras, 4, generator=generator)
    matrices = ray_matrices(k, torch.zeros(num_envs, cameras, 3), quat).to(device)
    ends = np.cumsum([height * width for height, width in sizes])
    pixels = torch.randint(0, int(ends[-1]), (num_envs, num_points), generator=generator, dtype=torch.int32).to(device)

    far = [1.0, math.inf, 1.25][:cameras]
    normals = estimate_normals(depths, matrices, pixels, far).cpu().numpy()
    for env in range(num_envs):
        for point in range(num_points):
            pixel = int(pixels[env, point])
            camera = int(np.searchsorted(ends, pixel, side="right"))
            height, width = sizes[camera]
            row, column = divmod(pixel - int(ends[camera]) + height * width, width)
            image = depths[camera][env].cpu().numpy()
            image = np.where(image < far[camera], image, 0.0)
            expected = reference_normal(image, matrices[env, camera].cpu().numpy(), row, column)
            np.testing.assert_allclose(normals[env, point], expected, atol=2e-5)


def test_normals_take_one_launch_for_each_camera() -> None:
    depth, matrices, _ = plane_scene(torch.tensor([[0.0, 0.0, -1.0]]))
    pixels = torch.arange(8, dtype=torch.int32)[None]
    with mock.patch.object(wp, "launch", wraps=wp.launch) as launch:
        estimate_normals([depth, depth], matrices.expand(-1, 2, -1, -1), pixels)
    assert launch.call_count == 2
