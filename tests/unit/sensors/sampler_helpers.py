# SPDX-License-Identifier: BSD-3-Clause
"""Inputs of the pixel sampler, and what it makes of them."""

from dataclasses import dataclass
from typing import Any

import torch

from isaaclab_pc.sensors import DepthToCloud
from isaaclab_pc.sensors.pixel_sampler import PixelSampler

Sizes = list[tuple[int, int]]


@dataclass
class Output:
    kept: torch.Tensor
    points: torch.Tensor
    pixels: torch.Tensor
    count: torch.Tensor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Output) and all(
            torch.equal(mine.cpu(), others.cpu())
            for mine, others in zip(vars(self).values(), vars(other).values(), strict=True)
        )


def operator(num_envs: int, sizes: Sizes, num_points: int, sampler: Any, **options: Any) -> DepthToCloud:
    return DepthToCloud(
        num_envs,
        sizes,
        num_points,
        sampler=sampler,
        crop_lower=(-1.0, -1.0, -1.0),
        crop_upper=(1.0, 1.0, 1.2),
        near=0.1,
        far=[1.35] * len(sizes),
        **options,
    )


def scene(num_envs: int, sizes: Sizes, seed: int = 0, *, labelled: bool = True, moved: bool = True) -> list[Any]:
    """Return the arguments of a pixel sampler, up to the outputs: wavy surfaces with holes, misses and NaN."""
    generator = torch.Generator().manual_seed(seed)

    def rand(*shape: int) -> torch.Tensor:
        return torch.rand(shape, generator=generator)

    depths, labels = [], []
    for height, width in sizes:
        v, u = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        depth = 1.0 + 0.3 * torch.sin(u / 7 + v / 11) + 0.05 * rand(num_envs, height, width)
        hole = rand(num_envs, height, width)
        depth[hole < 0.1] = 0.0
        depth[hole > 0.97] = torch.inf
        depth[hole > 0.99] = torch.nan
        depths.append(depth)
        labels.append((rand(num_envs, height, width) * 6 - 1).int())
    matrices = torch.cat([rand(num_envs, len(sizes), 3, 3) - 0.5, rand(num_envs, len(sizes), 3, 1) - 0.5], dim=-1)
    # As K^-1 makes them: a few hundredths per pixel.
    matrices[..., :2] /= 20
    matrices[..., 2] *= 0.5
    keys = torch.randint(-(2**31), 2**31, (num_envs,), generator=generator).int()
    # The ids of one camera are not those of the next.
    removed = torch.tensor([[False, True, False, True], [True, False, False, False]])[torch.arange(len(sizes)) % 2]
    removed = removed if labelled else removed[:, :0]
    to_output = rand(num_envs if moved else 0, 3, 4) - 0.5
    return [tuple(depths), tuple(labels), removed, matrices, to_output, keys, torch.ones(num_envs, dtype=torch.bool)]


def on(device: str, inputs: list[Any]) -> list[Any]:
    return [tuple(t.to(device) for t in x) if isinstance(x, tuple) else x.to(device) for x in inputs]


def lens_tables(sizes: Sizes) -> tuple[torch.Tensor, ...]:
    """Return where pinholes would see what pixels see: not far from where these are."""
    generator = torch.Generator().manual_seed(3)
    tables = []
    for height, width in sizes:
        v, u = torch.meshgrid(torch.arange(height) + 0.5, torch.arange(width) + 0.5, indexing="ij")
        tables.append(torch.stack([u, v], dim=-1) + 4 * torch.rand(height, width, 2, generator=generator) - 2)
    return tuple(tables)


def run(sampler: PixelSampler, num_points: int, inputs: list[Any], fill: float = 0.0, centers: Any = None) -> Output:
    num_envs, device = len(inputs[5]), inputs[5].device
    output = Output(
        torch.full((num_envs, num_points, 3), fill, device=device),
        torch.full((num_envs, num_points, 3), torch.nan, device=device),
        torch.full((num_envs, num_points), int(fill), dtype=torch.int32, device=device),
        torch.full((num_envs,), int(fill), dtype=torch.int32, device=device),
    )
    sampler(*inputs, *vars(output).values(), centers=centers)
    return output


def pixel_sampler(device: str, num_envs: int, sizes: Sizes, num_points: int, sampler: str) -> PixelSampler:
    """Return a pixel sampler; it takes matrices, not poses."""
    return PixelSampler(operator(num_envs, sizes, num_points, sampler, device=device))
