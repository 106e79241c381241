# SPDX-License-Identifier: BSD-3-Clause
"""Runs the cloud operator's numba functions on torch tensors."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numba
import numpy as np
import torch

from isaaclab_pc.processes.caches import use_writable_caches
from isaaclab_pc.sensors.cloud import pixel_order

try:
    from isaaclab_pc.sensors.kernels.numba_kernels import sample_clouds
except RuntimeError:
    # Numba finds no place for its cache, in a process that is none of our scripts' children.
    if not use_writable_caches():
        raise
    from isaaclab_pc.sensors.kernels.numba_kernels import sample_clouds

if TYPE_CHECKING:
    from isaaclab_pc.sensors.depth_to_cloud import DepthToCloud

# Another package's TBB may be too old for numba, which then takes another threading layer: nothing for a user to do.
warnings.filterwarnings("ignore", message="The TBB threading layer requires TBB version", category=numba.NumbaWarning)


def _flat(images: torch.Tensor) -> np.ndarray:
    """Return (N, H, W) images as one flat array, without a copy; the images of two environments may be far apart."""
    num_envs, height, width = images.shape
    return images.as_strided(((num_envs - 1) * images.stride(0) + height * width,), (1,)).numpy()


class NumbaBackend:
    """Run :func:`sample_clouds` on torch tensors of the CPU."""

    def __init__(self, operator: DepthToCloud) -> None:
        """Take the operator's constants."""
        self._crop = operator.crop
        self._near = operator.near
        self._far = operator.far
        self._order = pixel_order(operator.image_sizes)
        self._sizes = np.array(operator.image_sizes, dtype=np.int64)
        self._is_grid = operator.sampler == "grid"
        self._most_threads: int = numba.config.NUMBA_NUM_THREADS  # pyright: ignore

    def __call__(
        self,
        depths: tuple[torch.Tensor, ...],
        labels: tuple[torch.Tensor, ...],
        removed: torch.Tensor,
        matrices: torch.Tensor,
        to_output: torch.Tensor,
        keys: torch.Tensor,
        mask: torch.Tensor,
        kept: torch.Tensor,
        points: torch.Tensor,
        pixels: torch.Tensor,
        count: torch.Tensor,
        centers: tuple[torch.Tensor, ...] | None = None,
    ) -> None:
        """Fill ``kept``, ``pixels`` and ``count`` of the masked environments, and all of ``points``.

        The arguments are those of :func:`sample_clouds`, with ``kept``, float32, for its ``points``. ``points`` are a
        copy of any type.
        """
        torch_threads = torch.get_num_threads()
        threads = min(torch_threads, self._most_threads)
        numba.set_num_threads(threads)

        sample_clouds(
            tuple(_flat(image) for image in depths),
            np.array([image.stride(0) for image in depths]),
            tuple(_flat(image) for image in labels),
            np.array([image.stride(0) for image in labels]),
            removed.numpy(),
            self._sizes,
            matrices.numpy(),
            None if centers is None else tuple(table.numpy() for table in centers),
            to_output.numpy(),
            self._crop,
            self._near,
            self._far,
            self._order,
            keys.numpy(),
            mask.numpy(),
            self._is_grid,
            threads,
            kept.numpy(),
            pixels.numpy(),
            count.numpy(),
        )

        # Where numba runs on OpenMP, it shares torch's runtime, and has set torch's number of threads to its own.
        if torch.get_num_threads() != torch_threads:
            torch.set_num_threads(torch_threads)

        points.copy_(kept)
