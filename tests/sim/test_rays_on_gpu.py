# SPDX-License-Identifier: BSD-3-Clause
"""Blocks of threads on a GPU cast the rays that give the points of rendered images."""

from typing import Any

import gymnasium as gym
import pytest
import torch
from isaaclab.app import launch_simulation
from isaaclab.utils import replace
from isaaclab_tasks.utils import load_cfg_from_registry

import isaaclab_pc.tasks  # noqa: F401
from isaaclab_pc.cli.task_names import resolve_task
from isaaclab_pc.physics import apply_physics
from isaaclab_pc.settings import PhysicsSettings

pytestmark = [pytest.mark.sim, pytest.mark.gpu]

NUM_ENVS = 64


def test_rays_give_the_points_of_images() -> None:
    task = resolve_task("open_drawer")
    cfg: Any = load_cfg_from_registry(task, "env_cfg_entry_point")
    cfg.scene.num_envs, cfg.sim.device, cfg.seed = NUM_ENVS, "cuda:0", 0
    apply_physics(cfg, PhysicsSettings(backend="newton_mjwarp"))
    cfg.scene.camera.width, cfg.scene.camera.height = 64, 48
    everything = replace(cfg.scene.points, num_points=1500, dtype="float32")
    cfg.scene.points = replace(everything, source="image")
    cfg.scene.rays = replace(everything, source="rays", prim_path="{ENV_REGEX_NS}/Rays")
    cfg.scene.few = replace(everything, source="rays", prim_path="{ENV_REGEX_NS}/Few", num_points=300)

    with launch_simulation(cfg, {"device": "cuda:0", "headless": True}):
        env: Any = gym.make(task, cfg=cfg).unwrapped
        env.reset(seed=0)
        for _ in range(5):
            env.step(torch.rand(NUM_ENVS, env.cfg.action_space, device=env.device) * 2 - 1)
        image, rays, few = (by_pixel(env.scene[name]) for name in ("points", "rays", "few"))
        env.close()

    for rendered, cast, some in zip(image, rays, few, strict=True):
        assert 300 < len(rendered) < 1500
        assert cast.keys() == rendered.keys()
        assert len(some) == 300
        assert some.keys() <= rendered.keys()
        for pixel, point in cast.items():
            torch.testing.assert_close(point, rendered[pixel], atol=1e-5, rtol=0)


def by_pixel(sensor: Any) -> list[dict[int, torch.Tensor]]:
    """Return the points of each environment by their pixels."""
    data = sensor.data
    rows = zip(data.count.torch.tolist(), data.pixels.torch.tolist(), data.points.torch.cpu(), strict=True)
    return [dict(zip(pixels[:count], points[:count], strict=True)) for count, pixels, points in rows]
