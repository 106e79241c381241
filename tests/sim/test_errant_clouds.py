# SPDX-License-Identifier: BSD-3-Clause
"""A camera's errors in a task's own scene: by rays as many points come into the crop as by images."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from isaaclab.utils import replace

from isaaclab_pc.sensors import stereo, structured_light

pytestmark = pytest.mark.sim

NUM_ENVS = 6
CAMERAS = {"stereo": stereo, "structured_light": structured_light}
LOWER = (0.2, -0.4, 0.005)
"""Corner of the crop, low enough for noise to lift the table into it."""
FROM_CUBE = 0.06
"""Distance from the cube's centre beyond which a point is none of it [m]."""


def add_clouds(cfg: Any) -> None:
    """Add clouds by rays and by images for each kind of camera: a sample of a low crop, and all of the task's own."""
    points = cfg.scene.points
    for kind, camera in CAMERAS.items():
        lifted = {"realism": replace(camera(), latency=0, flying_pixels=0.0), "num_points": 256, "crop_lower": LOWER}
        # No shadow, which images lack.
        mixed = {"realism": replace(camera(), latency=0, flying_pixels=0.5, shadow_baseline=0.0), "num_points": 2048}
        for name, changes in {kind: lifted, f"{kind}_edges": mixed}.items():
            for source in ("rays", "image"):
                path = f"{points.prim_path}_{name}_{source}"
                told = replace(points, prim_path=path, frame="env", source=source, **changes)
                setattr(cfg.scene, f"{name}_{source}", told)
    # The camera renders for those of images.
    cfg.scene.points = replace(points, source="image")


@pytest.fixture(scope="module")
def env(make_env: Callable) -> Any:
    made = make_env("IsaacPC-Lift-Cube-Franka-Direct", NUM_ENVS, adjust=add_clouds)
    made.reset(seed=0)
    expert = made.expert()
    # The hand comes down into the crop.
    for _ in range(25):
        made.step(expert())
    return made


def count_points(env: Any, name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return how many points of a cloud are far from the cube, and near it, each (N,)."""
    data = env.scene[name].data
    is_far = (data.points.torch.float() - env.cube_pos[:, None]).norm(dim=-1) > FROM_CUBE
    seen = data.mask.torch
    return (is_far & seen).sum(dim=1).float(), (~is_far & seen).sum(dim=1).float()


@pytest.mark.parametrize("kind", CAMERAS)
def test_noise_lifts_as_many_points_of_the_table(env: Any, kind: str) -> None:
    by_rays, _ = count_points(env, f"{kind}_rays")
    by_images, _ = count_points(env, f"{kind}_image")
    assert by_images.mean() > 20
    # Of 256 points, draws of which 50 % hit differ by 11 in the standard deviation.
    torch.testing.assert_close(by_rays, by_images, atol=50, rtol=0)


@pytest.mark.parametrize("kind", CAMERAS)
def test_as_many_points_are_read_beside_the_robot(env: Any, kind: str) -> None:
    by_rays, of_cube = count_points(env, f"{kind}_edges_rays")
    by_images, of_cube_in_images = count_points(env, f"{kind}_edges_image")
    assert by_images.mean() > 30
    # Each is a draw for itself: two totals of 400 differ by 7 % in the standard deviation.
    torch.testing.assert_close(by_rays.sum(), by_images.sum(), atol=0, rtol=0.2)
    torch.testing.assert_close(of_cube.sum(), of_cube_in_images.sum(), atol=0, rtol=0.05)
