# SPDX-License-Identifier: BSD-3-Clause
"""Changes of frame, one kernel each: a GPU's host waits as long for every launch, however little it does.

Quaternions are (x, y, z, w) and of length 1. Lengths are in any unit, the same for all arguments.
"""

import torch

from isaaclab_pc.tensors import pose_kernels as kernels
from isaaclab_pc.tensors.warp_stream import launch_rows


def from_frame(position: torch.Tensor | None, quat: torch.Tensor, point: torch.Tensor) -> torch.Tensor:
    """Express points of moving frames in the frame that these move in, float32, a tensor of its own.

    ``position`` (N, 3) and ``quat`` (N, 4) are the moving frames' poses; without ``position`` they turn alone.
    ``point`` is (N, 3) or (N, M, 3).
    """
    return _launched(kernels.from_frame, position, quat, point)


def into_frame(position: torch.Tensor | None, quat: torch.Tensor, point: torch.Tensor) -> torch.Tensor:
    """Express points in moving frames: the inverse of :func:`from_frame`, with its arguments."""
    return _launched(kernels.into_frame, position, quat, point)


def orientation_in_frame(frame_quat: torch.Tensor, quat: torch.Tensor) -> torch.Tensor:
    """Express orientations (N, 4) in moving frames of orientations (N, 4); float32, a tensor of its own."""
    result = torch.empty_like(quat, memory_format=torch.contiguous_format)
    launch_rows(kernels.orientation_in_frame, frame_quat, quat, result)
    return result


def _launched(kernel: object, position: torch.Tensor | None, quat: torch.Tensor, point: torch.Tensor) -> torch.Tensor:
    result = torch.empty(point.shape, device=quat.device)
    origin = quat[:0, :3] if position is None else position
    points, results = (point, result) if point.dim() == 3 else (point[:, None], result[:, None])
    launch_rows(kernel, origin, quat, points, results)
    return result
