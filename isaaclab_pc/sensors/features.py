# SPDX-License-Identifier: BSD-3-Clause
"""Features of a point beside its position, read at the chosen pixels only."""

import math
from collections.abc import Sequence
from itertools import accumulate

import torch
import warp as wp

from isaaclab_pc.sensors.kernels.normal_kernels import write_normals
from isaaclab_pc.sensors.kernels.pixel_kernels import Matrix
from isaaclab_pc.tensors.constant_tensor import constant_tensor
from isaaclab_pc.tensors.warp_stream import current_stream


def at_pixels(images: Sequence[torch.Tensor], pixels: torch.Tensor) -> torch.Tensor:
    """Read images (N, H, W, D), one per camera and of one dtype, at the pixels of a cloud; returns (N, K, D).

    ``pixels`` (N, K) are numbered through all cameras, as :class:`Cloud` gives them.
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


def estimate_normals(
    depths: Sequence[torch.Tensor],
    matrices: torch.Tensor,
    pixels: torch.Tensor,
    far: Sequence[float] | None = None,
    centers: Sequence[torch.Tensor] | None = None,
) -> torch.Tensor:
    """Estimate surface normals at the pixels of a cloud from the depth of their neighbours.

    Each is the cross product of the differences to one horizontal and one vertical neighbour: the side closer in
    depth, so that edges do not blend surfaces.

    Depth images are one per camera [m], each (N, H, W), float32, a miss from ``far`` on; ``matrices`` are
    :func:`ray_matrices` of the frame of the normals, (N, C, 3, 4), ``pixels`` numbered through all cameras, (N, K), and
    ``centers`` as for :meth:`DepthToCloud.__call__`. Returns unit normals on the camera's side, (N, K, 3); towards the
    camera where a pixel has no valid neighbour.
    """
    num_envs, num_points = pixels.shape
    normals = torch.empty(num_envs, num_points, 3, device=pixels.device)
    # The tensor keeps its name: the launch takes the address alone.
    matrices = matrices.contiguous()
    env_bits = (num_points - 1).bit_length()
    no_lens = matrices.new_empty(0, 0, 2)

    offset = 0
    for camera, depth in enumerate(depths):
        wp.launch(
            write_normals,
            dim=num_envs << env_bits,
            inputs=[
                wp.from_torch(depth, return_ctype=True),
                wp.from_torch(matrices, dtype=Matrix, return_ctype=True),
                wp.from_torch(no_lens if centers is None else centers[camera], dtype=wp.vec2f, return_ctype=True),
                camera,
                offset,
                math.inf if far is None else far[camera],
                wp.from_torch(pixels, return_ctype=True),
                env_bits,
                wp.from_torch(normals, dtype=wp.vec3f, return_ctype=True),
            ],
            device=str(pixels.device),
            stream=current_stream(pixels.device),
        )
        offset += depth.shape[1] * depth.shape[2]
    return normals
