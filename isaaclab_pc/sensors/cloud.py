# SPDX-License-Identifier: BSD-3-Clause
"""Point clouds of all environments, and the order in which their pixels are counted."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True)
class Cloud:
    """One point cloud per environment."""

    points: torch.Tensor
    """Points [m], shape (N, K, 3)."""

    count: torch.Tensor
    """Points that are distinct pixels, shape (N,), int32. The points after them repeat them; with none, all are 0."""

    pixels: torch.Tensor
    """Where each point was seen, shape (N, K), int32: row * W + column, after the pixels of the cameras before it."""

    labels: torch.Tensor | None = None
    """Semantic id of each point, shape (N, K), int32, where rays have told it."""

    normals: torch.Tensor | None = None
    """Unit normal of each point on the camera's side, in the world, shape (N, K, 3), where rays have told it."""

    @property
    def mask(self) -> torch.Tensor:
        """True at the points that are distinct pixels, shape (N, K)."""
        return torch.arange(self.pixels.shape[1], device=self.count.device) < self.count[:, None]


def pixel_order(image_sizes: Sequence[tuple[int, int]]) -> np.ndarray:
    """Order pixels so that neighbours in the order are neighbours in the image (Morton 1966).

    ``image_sizes`` are (H, W) of each camera. Returns every pixel of every camera once, camera by camera, (P,), int32.
    """
    orders = []
    offset = 0
    for height, width in image_sizes:
        row, column = (index.ravel() for index in np.indices((height, width)))

        # The bits of column and row, taken in turn, number the pixels along the curve.
        code = np.zeros(height * width, dtype=np.int64)
        for bit in range(max(height, width).bit_length()):
            code |= ((column >> bit) & 1) << (2 * bit) | ((row >> bit) & 1) << (2 * bit + 1)

        orders.append(offset + np.argsort(code))
        offset += height * width
    return np.concatenate(orders).astype(np.int32)
