# SPDX-License-Identifier: BSD-3-Clause
"""Clouds of real rendered scenes against the analytic surfaces of what stands there."""

from collections.abc import Callable

import pytest
import torch
from isaaclab.utils.math import quat_apply_inverse

pytestmark = pytest.mark.sim

TOLERANCE = 1e-4  # [m], for float32
CUBE_HALF = 0.025


def distance_to_cube(env, points: torch.Tensor) -> torch.Tensor:
    """Distance of points (N, K, 3) from the surface of the cube [m], shape (N, K)."""
    quat = env.cube_quat[:, None].expand(-1, points.shape[1], -1)
    local = quat_apply_inverse(quat, points - env.cube_pos[:, None])
    outside = (local.abs() - CUBE_HALF).clamp(min=0).norm(dim=-1)
    inside = (CUBE_HALF - local.abs()).amin(dim=-1).clamp(min=0)
    return torch.maximum(outside, inside)


@pytest.fixture(scope="module")
def env(make_env: Callable):
    def adjust(cfg) -> None:
        cfg.scene.points.dtype = "float32"
        cfg.scene.points.frame = "env"
        cfg.scene.points.num_points = 1024
        cfg.scene.points.crop_lower = (0.3, -0.3, -0.01)
        # Without the table's front.
        cfg.scene.points.crop_upper = (0.84, 0.3, 0.6)

    return make_env("IsaacPC-Lift-Cube-Franka-Direct", 4, adjust)


def test_every_point_lies_on_the_table_or_the_cube(env) -> None:
    env.reset(seed=3)
    for _ in range(5):
        obs = env.step(torch.zeros(env.num_envs, env.cfg.action_space))[0]
    points = obs["points"]
    on_table = points[..., 2].abs()
    on_cube = distance_to_cube(env, points)
    assert torch.minimum(on_table, on_cube).max() < TOLERANCE
    assert (on_table < TOLERANCE).sum() > 100
    # Each face that the camera sees is there: the top and at least one side.
    tops = (points[..., 2] - 2 * CUBE_HALF).abs() < TOLERANCE
    sides = (on_cube < TOLERANCE) & (points[..., 2] > 0.005) & (points[..., 2] < 2 * CUBE_HALF - 0.005)
    assert (tops.sum(1) > 3).all()
    assert (sides.sum(1) > 3).all()


def test_the_count_tells_distinct_pixels(env) -> None:
    points = env.reset(seed=4)[0]["points"]
    for cloud, count in zip(points, env.point_cloud.data.count.torch, strict=True):
        assert len(cloud.unique(dim=0)) == int(count)
