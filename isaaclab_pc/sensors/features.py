# SPDX-License-Identifier: BSD-3-Clause
"""What a point carries beside its position, read at the chosen pixels only."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch

from isaaclab_pc.constant_tensor import constant_tensor


def at_pixels(images: Sequence[torch.Tensor], pixels: torch.Tensor) -> torch.Tensor:
    """Read images at the pixels of a cloud.

    Args:
        images: One per camera, each (N, H, W, D), of one dtype.
        pixels: Pixels numbered through all cameras, as :class:`Cloud` gives them, shape (N, K).

    Returns:
        Shape (N, K, D).
    """
    result = None
    offset = 0
    for image in images:
        flat = image.flatten(1, 2)
        pixel = pixels.long() - offset
        index = pixel.clamp(0, flat.shape[1] - 1)[..., None].expand(-1, -1, flat.shape[2])
        values = flat.gather(1, index)

        # A later camera's pixels are not negative here; what an earlier camera wrote for them is replaced.
        result = values if result is None else torch.where((pixel >= 0)[..., None], values, result)
        offset += flat.shape[1]
    assert result is not None
    return result


def camera_of(image_sizes: Sequence[tuple[int, int]], pixels: torch.Tensor) -> torch.Tensor:
    """Tell which camera saw each pixel of a cloud, shape (N, K), int64."""
    ends = tuple(accumulate(height * width for height, width in image_sizes))
    return torch.bucketize(pixels, constant_tensor(ends, pixels.device, torch.long), right=True)


def estimate_normals(depths: Sequence[torch.Tensor], matrices: torch.Tensor, pixels: torch.Tensor) -> torch.Tensor:
    """Estimate surface normals at the pixels of a cloud from the depth of their neighbours.

    Each normal is the cross product of the differences to one horizontal and one vertical neighbour: of the two
    sides, the one that is closer in depth, so that edges do not blend surfaces.

    Args:
        depths: One depth image per camera [m], each (N, H, W).
        matrices: :func:`ray_matrices` of the frame of the normals, shape (N, C, 3, 4).
        pixels: Pixels numbered through all cameras, shape (N, K).

    Returns:
        Unit normals on the camera's side of the surface, shape (N, K, 3); towards the camera where a pixel has no
        valid neighbour.
    """
    result = None
    offset = 0
    for camera, depth in enumerate(depths):
        height, width = depth.shape[1:]
        pixel = pixels.long() - offset
        index = pixel.clamp(0, height * width - 1)
        row = index // width
        column = index % width
        normals = _normals_of_one_camera(depth, matrices[:, camera], row, column)

        result = normals if result is None else torch.where((pixel >= 0)[..., None], normals, result)
        offset += height * width
    assert result is not None
    return result


def _normals_of_one_camera(
    depth: torch.Tensor, matrix: torch.Tensor, row: torch.Tensor, column: torch.Tensor
) -> torch.Tensor:
    """Return the unit normals at pixels of one camera, shape (N, K, 3); ``row`` and ``column`` are (N, K)."""
    height, width = depth.shape[1:]

    def read(row: torch.Tensor, column: torch.Tensor) -> torch.Tensor:
        """Return the depth at pixels [m]; infinity for a miss and outside the image."""
        inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        index = row.clamp(0, height - 1) * width + column.clamp(0, width - 1)
        z = depth.flatten(1).gather(1, index)
        return torch.where(inside & (z > 0) & z.isfinite(), z, torch.inf)

    def ray(row: torch.Tensor, column: torch.Tensor) -> torch.Tensor:
        """Return the point at depth 1 relative to the camera, shape (N, K, 3)."""
        along_u, along_v, through_origin, _ = matrix[:, None].unbind(dim=-1)
        return (column + 0.5)[..., None] * along_u + (row + 0.5)[..., None] * along_v + through_origin

    z = read(row, column)
    z = torch.where(z.isfinite(), z, 1.0)
    point = z[..., None] * ray(row, column)

    # One tangent along the row and one along the column, each towards the neighbour that is closer in depth.
    tangents = []
    for down, right in ((0, 1), (1, 0)):
        ahead = read(row + down, column + right)
        behind = read(row - down, column - right)
        use_ahead = (ahead - z).abs() <= (behind - z).abs()
        step = torch.where(use_ahead, 1, -1)
        z_near = torch.where(use_ahead, ahead, behind)

        known = z_near.isfinite()
        near = torch.where(known, z_near, z)[..., None] * ray(row + step * down, column + step * right)
        tangents.append(torch.where(known[..., None], (near - point) * step[..., None], 0.0))

    normal = torch.linalg.cross(tangents[0], tangents[1])
    length = normal.norm(dim=-1, keepdim=True)
    towards_camera = -point / point.norm(dim=-1, keepdim=True)
    normal = torch.where(length > 0, normal / length, towards_camera)
    return normal * torch.where((normal * towards_camera).sum(-1, keepdim=True) < 0, -1.0, 1.0)
