# SPDX-License-Identifier: BSD-3-Clause
"""The matrices between pixels and the frames of clouds."""

from typing import Any

import torch

from isaaclab_pc.sensors.kernels import matrix_kernels
from isaaclab_pc.tensors.warp_stream import launch_rows


def ray_matrices(
    intrinsics: torch.Tensor,
    camera_pos: torch.Tensor,
    camera_quat: torch.Tensor,
    frame_pos: torch.Tensor | None = None,
    frame_quat: torch.Tensor | None = None,
) -> torch.Tensor:
    """Compose K^-1, the camera's pose and the frame's pose.

    Args:
        intrinsics: Pinhole matrices without skew [px], shape (N, C, 3, 3).
        camera_pos: Positions in the world [m], shape (N, C, 3).
        camera_quat: Orientations in the world, optical convention, (x, y, z, w), shape (N, C, 4).
        frame_pos: Origin of the frame in the world [m], shape (N, 3); None is the world's.
        frame_quat: Orientation of the frame in the world, shape (N, 4); None is the world's.

    Returns:
        Matrices that take (z u, z v, z, 1) to the frame, shape (N, C, 3, 4), for pixel coordinates u, v and depth z.
    """
    transforms = torch.empty(*camera_pos.shape[:2], 3, 4, device=camera_pos.device)
    _fill(matrix_kernels.ray_transforms, transforms, intrinsics, camera_pos, camera_quat, frame_pos, frame_quat)
    return transforms


def frame_change(
    from_pos: torch.Tensor | None,
    from_quat: torch.Tensor | None,
    to_pos: torch.Tensor | None,
    to_quat: torch.Tensor | None,
    *,
    like: torch.Tensor,
) -> torch.Tensor:
    """Return the matrices that take points of one frame to another, shape (N, 3, 4), on the device of ``like``.

    Origins (N, 3) [m] and orientations (x, y, z, w), (N, 4), are in the world. None of the points' frame is the
    world's; None of the new frame is the points' frame's.
    """
    to_pos = from_pos if to_pos is None else to_pos
    to_quat = from_quat if to_quat is None else to_quat
    transforms = torch.empty(len(like), 3, 4, device=like.device)
    _fill(matrix_kernels.frame_changes, transforms, from_pos, from_quat, to_pos, to_quat)
    return transforms


def _fill(kernel: Any, transforms: torch.Tensor, *inputs: torch.Tensor | None) -> None:
    # One kernel: each of torch's dozens of operations would take as long as all of it.
    empty = transforms.new_empty(0, 0)
    launch_rows(kernel, *(empty if tensor is None else tensor for tensor in inputs), transforms)
