# SPDX-License-Identifier: BSD-3-Clause
"""The samplers that compare points: which K of those at several times as many random pixels a cloud keeps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import warp as wp

from isaaclab_pc.sensors.cloud import Cloud, pixel_order
from isaaclab_pc.sensors.cloud_checks import Sampler
from isaaclab_pc.sensors.kernels import farthest_kernels, pixel_kernels
from isaaclab_pc.tensors import keyed_random_kernels
from isaaclab_pc.tensors.keyed_random import keyed_uniform
from isaaclab_pc.tensors.warp_stream import current_stream

CANDIDATES = 4
"""Random pixels for each point that another sampler keeps."""

_STREAM = 3
_DRAW_BITS = 24
"""Bits of a number that :func:`keyed_uniform` draws."""


class PointSampler:
    """Choose K of up to M points of each environment by a sampler of :class:`DepthToCloud`, whatever their order.

    The candidates are a random part of the valid pixels; where there are at most M of those, all of them.
    """

    def __init__(
        self,
        sampler: Sampler,
        num_points: int,
        image_sizes: Sequence[tuple[int, int]],
        crop: np.ndarray,
        voxel_size: float,
        device: torch.device,
    ) -> None:
        """Take the settings of :class:`DepthToCloud`; ``crop`` are the corners [m], (2, 3)."""
        self._choose = {"grid": self._one_of_each_part, "voxel": self._one_of_each_voxel, "fps": self._farthest}[
            sampler
        ]
        self._num_points = num_points
        self._ranks = torch.arange(num_points, device=device)
        if sampler == "grid":
            # Along the curve that keeps neighbours together.
            self._place_on_curve = torch.from_numpy(pixel_order(image_sizes)).to(device).argsort()
        elif sampler == "voxel":
            self._crop_lower = torch.from_numpy(crop[0]).float().to(device)
            self._voxel_size = voxel_size
            _, self._voxels_y, self._voxels_z = ((crop[1] - crop[0]) / voxel_size + 2.0).astype(int).tolist()

        # Kernels cannot be compiled while a CUDA graph is captured.
        lanes, _ = pixel_kernels.lanes_on(str(device))
        wp.load_module(keyed_random_kernels, device=str(device), block_dim=lanes)
        if sampler == "fps":
            wp.load_module(farthest_kernels, device=str(device), block_dim=lanes)

    def __call__(self, cloud: Cloud, keys: torch.Tensor) -> Cloud:
        """Choose of candidates in the crop's frame; ``keys`` (N,) key the draws."""
        count = cloud.count.clamp(max=self._num_points)
        # Where there are too few, they are repeated.
        all_of_them = self._ranks % count.clamp(min=1)[:, None]
        index = torch.where((cloud.count > self._num_points)[:, None], self._choose(cloud, keys), all_of_them)

        def chosen(values: torch.Tensor | None) -> torch.Tensor | None:
            if values is None:
                return None
            wide = index.view(*index.shape, *[1] * (values.dim() - 2)).expand(-1, -1, *values.shape[2:])
            return values.gather(1, wide)

        points, pixels = chosen(cloud.points), chosen(cloud.pixels)
        assert points is not None
        assert pixels is not None
        return Cloud(points, count, pixels, chosen(cloud.labels), chosen(cloud.normals))

    def _one_of_each_part(self, cloud: Cloud, keys: torch.Tensor) -> torch.Tensor:
        curve = self._place_on_curve[cloud.pixels.long()].masked_fill(~cloud.mask, len(self._place_on_curve))
        count = cloud.count.long()[:, None]
        bounds = [(self._ranks + more) * count // self._num_points for more in (0, 1)]
        unit = _draw(keys, self._num_points)
        rank = bounds[0] + (unit * (bounds[1] - bounds[0])).long()
        return torch.argsort(curve, dim=1).gather(1, rank.clamp(max=curve.shape[1] - 1))

    def _one_of_each_voxel(self, cloud: Cloud, keys: torch.Tensor) -> torch.Tensor:
        mask = cloud.mask
        x, y, z = ((cloud.points - self._crop_lower) / self._voxel_size).int().unbind(-1)
        voxel = ((x * self._voxels_y + y) * self._voxels_z + z).masked_fill(~mask, -1)
        draws = _draw(keys, 2 * voxel.shape[1])

        # Any point may stand for its voxel.
        drawn = (voxel.long() << _DRAW_BITS) + (draws[:, ::2] * 2.0**_DRAW_BITS).long()
        drawn, order = torch.sort(drawn, dim=1, stable=True)
        voxel = drawn >> _DRAW_BITS
        is_first = torch.ones_like(mask)
        is_first[:, 1:] = voxel[:, 1:] != voxel[:, :-1]
        first = torch.zeros_like(mask).scatter_(1, order, is_first)

        # Those first, each voxel as soon as any other, then the other points, then what is no point.
        rank = (draws[:, 1::2] - first.float()).masked_fill(~mask, 1.0)
        return torch.argsort(rank, dim=1, stable=True)[:, : self._num_points]

    def _farthest(self, cloud: Cloud, keys: torch.Tensor) -> torch.Tensor:
        picks = torch.zeros(len(keys), self._num_points, dtype=torch.int32, device=keys.device)
        # float32 may round a share just below 1 up to all of them.
        picks[:, 0] = (_draw(keys, 1)[:, 0] * cloud.count).int().clamp(max=cloud.count - 1)
        lanes, _ = pixel_kernels.lanes_on(str(keys.device))
        wp.launch(
            farthest_kernels.pick_farthest,
            dim=len(keys) * lanes,
            inputs=[
                wp.from_torch(cloud.points, dtype=wp.vec3f),
                wp.from_torch(cloud.count),
                wp.from_torch(torch.empty(cloud.pixels.shape, device=keys.device)),
                wp.from_torch(picks),
            ],
            device=str(keys.device),
            stream=current_stream(keys.device),
            block_dim=lanes,
        )
        return picks.long()


def _draw(keys: torch.Tensor, columns: int) -> torch.Tensor:
    return keyed_uniform(0, keys, torch.zeros_like(keys), _STREAM, columns)


def moved(cloud: Cloud, to_output: torch.Tensor) -> torch.Tensor:
    """Return the points in another frame, (N, K, 3); ``to_output`` as of ``frame_change``, or none: the same frame."""
    if len(to_output) == 0:
        return cloud.points
    points = torch.baddbmm(to_output[:, None, :, 3], cloud.points, to_output[:, :, :3].mT)
    return points.masked_fill(cloud.count[:, None, None] == 0, 0.0)
