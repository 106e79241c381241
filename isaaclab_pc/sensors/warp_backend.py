# SPDX-License-Identifier: BSD-3-Clause
"""Runs the cloud operator's Warp kernels on torch tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import warp as wp

from isaaclab_pc.sensors import warp_kernels as kernels
from isaaclab_pc.sensors.numba_kernels import SAMPLERS

if TYPE_CHECKING:
    from isaaclab_pc.sensors.depth_to_cloud import DepthToCloud


class WarpBackend:
    """Run :mod:`isaaclab_pc.sensors.warp_kernels` on torch's current stream, without host syncs or allocations."""

    def __init__(self, operator: DepthToCloud) -> None:
        """Allocate the scratch: 5 bytes a pixel; ``voxel`` takes 24 more and ``fps`` 16 more."""
        wp.init()
        n, total, device = operator.num_envs, len(operator.order), operator.device
        self._device = device
        self._sizes = operator.image_sizes
        self._sampler = SAMPLERS.index(operator.sampler)
        self._lower, self._upper = (wp.vec3f(*corner.tolist()) for corner in operator.crop)
        self._near, self._far = operator.near.tolist(), operator.far.tolist()
        self._voxel_size = float(operator.voxel_size)
        self._order = torch.from_numpy(operator.order).to(device)

        def scratch(columns: int, dtype: torch.dtype, *, wanted: bool = True) -> torch.Tensor:
            return torch.zeros(n, columns if wanted else 0, dtype=dtype, device=device)

        voxel, fps = operator.sampler == "voxel", operator.sampler == "fps"
        self._inside = scratch(total, torch.bool)
        self._found = scratch(total, torch.int32)
        self._moved = scratch(total, torch.int32, wanted=voxel)
        self._table = scratch(2 * total, torch.int32, wanted=voxel)
        self._distance = scratch(total, torch.float32, wanted=fps)
        self._points = torch.zeros(n, total if voxel or fps else 0, 3, device=device)

    def __call__(
        self,
        depths: tuple[torch.Tensor, ...],
        labels: tuple[torch.Tensor, ...],
        removed: torch.Tensor,
        matrices: torch.Tensor,
        to_output: torch.Tensor,
        keys: torch.Tensor,
        mask: torch.Tensor,
        points: torch.Tensor,
        pixels: torch.Tensor,
        count: torch.Tensor,
    ) -> None:
        """Fill ``points``, ``pixels`` and ``count``; the arguments are those of the numba backend."""
        transforms, wp_mask = wp.from_torch(matrices.contiguous(), dtype=kernels.Matrix), wp.from_torch(mask)
        wp_pixels, wp_count = wp.from_torch(pixels), wp.from_torch(count)
        unprojected, inside = wp.from_torch(self._points, dtype=wp.vec3f), wp.from_torch(self._inside)
        offsets = [sum(h * w for h, w in self._sizes[:camera]) for camera in range(len(self._sizes))]
        images = [wp.from_torch(depth) for depth in depths]
        for camera, (image, classes) in enumerate(zip(images, labels, strict=True)):
            self._launch(
                kernels.mark,
                (len(keys), *self._sizes[camera]),
                [
                    *(image, wp.from_torch(classes), wp.from_torch(removed[camera]), transforms, wp_mask),
                    *(self._lower, self._upper, self._near[camera], self._far[camera]),
                    *(camera, offsets[camera], unprojected, inside),
                ],
            )
        self._launch(
            kernels.choose,
            (len(keys),),
            [
                *(inside, wp.from_torch(self._order), wp.from_torch(keys), wp_mask, self._sampler, unprojected),
                *(self._lower, self._upper, self._voxel_size),
                *(wp.from_torch(scratch) for scratch in (self._found, self._moved, self._table, self._distance)),
                *(wp_pixels, wp_count),
            ],
        )
        output = wp.from_torch(to_output.contiguous(), dtype=kernels.Matrix)
        for camera, image in enumerate(images):
            self._launch(
                kernels.emit,
                tuple(pixels.shape),
                [
                    *(image, transforms, output, wp_mask, camera, offsets[camera]),
                    *(wp_pixels, wp_count, wp.from_torch(points, dtype=wp.vec3f)),
                ],
            )

    def _launch(self, kernel: Any, dim: tuple[int, ...], inputs: list[Any]) -> None:
        stream = None
        if self._device.type == "cuda":
            stream = wp.stream_from_torch(torch.cuda.current_stream(self._device))
        wp.launch(kernel, dim=dim, inputs=inputs, device=str(self._device), stream=stream)
