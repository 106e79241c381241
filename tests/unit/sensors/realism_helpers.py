# SPDX-License-Identifier: BSD-3-Clause
"""Cameras, keys and settings for the tests of the depth camera's errors."""

from typing import Any

import torch

from isaaclab_pc.sensors.realism.cfg import DepthRealismCfg, StructuredLightNoiseCfg
from isaaclab_pc.sensors.realism.depth_realism import DepthRealism
from isaaclab_pc.tensors.keyed_random import keyed_hash

FX = 60.0
NO_LATERAL = 1e9
"""Focal length of a camera so fine that its lateral noise stays within a rendered pixel."""


def pinhole(num_envs: int, size: int, fx: float = FX, fy: float | None = None) -> torch.Tensor:
    return torch.tensor([[fx, 0.0, size / 2], [0.0, fy or fx, size / 2], [0.0, 0.0, 1.0]]).repeat(num_envs, 1, 1)


def make_keys(num_envs: int, frame: int = 0) -> torch.Tensor:
    return keyed_hash(7, torch.arange(num_envs), frame).int()


def make(cfg: DepthRealismCfg, num_envs: int, height: int, width: int | None = None, **kwargs: Any) -> DepthRealism:
    return DepthRealism(cfg, [(height, width or height)], num_envs, "cpu", **kwargs)


def corrupt(cfg: DepthRealismCfg, depth: torch.Tensor, fx: float = FX, frame: int = 0) -> torch.Tensor:
    """Corrupt one frame of one camera."""
    num_envs, height, width = depth.shape
    realism = make(cfg, num_envs, height, width)
    return realism.corrupt(0, depth, pinhole(num_envs, width, fx), make_keys(num_envs, frame))[0]


def everything() -> DepthRealismCfg:
    return DepthRealismCfg(
        noise=StructuredLightNoiseCfg(scale=(0.5, 2.0), focal_length=None),
        flying_pixels=(0.1, 0.5),
        quantization=0.002,
        min_range=(0.1, 0.4),
        max_range=(2.0, 3.0),
        dropout=(0.0, 0.2),
        position_jitter=0.02,
        rotation_jitter=0.1,
        focal_jitter=0.05,
        principal_point_jitter=1.0,
        latency=(0, 3),
    )


def poses(num_envs: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    quat = torch.nn.functional.normalize(torch.randn(num_envs, 4, generator=generator), dim=-1)
    return torch.randn(num_envs, 3, generator=generator), quat
