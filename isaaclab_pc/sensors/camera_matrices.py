# SPDX-License-Identifier: BSD-3-Clause
"""The matrices between pixels and the frames of clouds."""

from __future__ import annotations

import numpy as np
import torch

__all__ = ["frame_change", "ray_matrices"]

_NO_ARRAY = np.zeros((0, 0), dtype=np.float32)


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
    if _on_cpu(camera_pos):
        # One loop: each of torch's two dozen operations takes longer than all of it. Late: a GPU needs no numba.
        from isaaclab_pc.sensors.numba_matrix_kernels import ray_transforms

        result = torch.empty(*camera_pos.shape[:2], 3, 4)
        k, pos, quat = (tensor.contiguous().numpy() for tensor in (intrinsics, camera_pos, camera_quat))
        ray_transforms(k, pos, quat, _numpy(frame_pos), _numpy(frame_quat), result.numpy())
        return result

    rotation = _matrix_from_quat(camera_quat)
    position = camera_pos if frame_pos is None else camera_pos - frame_pos[:, None]
    if frame_quat is not None:
        to_frame = _matrix_from_quat(frame_quat).transpose(1, 2)[:, None]
        rotation = _product(to_frame, rotation)
        position = _product(to_frame, position[..., None])[..., 0]

    k = intrinsics[..., None, :, :]
    along_u = rotation[..., 0] / k[..., 0, 0]
    along_v = rotation[..., 1] / k[..., 1, 1]
    through_origin = rotation[..., 2] - k[..., 0, 2] * along_u - k[..., 1, 2] * along_v
    return torch.stack([along_u, along_v, through_origin, position], dim=-1)


def frame_change(
    from_pos: torch.Tensor | None,
    from_quat: torch.Tensor | None,
    to_pos: torch.Tensor | None,
    to_quat: torch.Tensor | None,
    *,
    like: torch.Tensor,
) -> torch.Tensor:
    """Return the matrices that take points of one frame to another, shape (N, 3, 4).

    Args:
        from_pos: Origin of the points' frame in the world [m], shape (N, 3); None is the world's.
        from_quat: Its orientation in the world, (x, y, z, w), shape (N, 4); None is the world's.
        to_pos: Origin of the new frame in the world [m], shape (N, 3); None is the first frame's.
        to_quat: Its orientation in the world, shape (N, 4); None is the first frame's.
        like: Tensor whose length, device and dtype the result takes.
    """
    to_pos = from_pos if to_pos is None else to_pos
    to_quat = from_quat if to_quat is None else to_quat
    if _on_cpu(like):
        from isaaclab_pc.sensors.numba_matrix_kernels import frame_changes

        result = torch.empty(len(like), 3, 4)
        frame_changes(_numpy(from_pos), _numpy(from_quat), _numpy(to_pos), _numpy(to_quat), result.numpy())
        return result

    identity = torch.eye(3, device=like.device).expand(len(like), 3, 3)
    zero = torch.zeros(len(like), 3, device=like.device)
    from_matrix = identity if from_quat is None else _matrix_from_quat(from_quat)
    to_matrix = identity if to_quat is None else _matrix_from_quat(to_quat)
    from_pos = zero if from_pos is None else from_pos
    to_pos = zero if to_pos is None else to_pos

    rotation = _product(to_matrix.transpose(1, 2), from_matrix)
    translation = _product(to_matrix.transpose(1, 2), (from_pos - to_pos)[..., None])
    return torch.cat([rotation, translation], dim=-1)


def _matrix_from_quat(quat: torch.Tensor) -> torch.Tensor:
    """Return rotation matrices, shape (..., 3, 3), of quaternions (x, y, z, w) of any length, shape (..., 4)."""
    # As isaaclab.utils.math has it; but this file runs where Isaac Lab is not installed.
    x, y, z, w = (quat * (2.0 / (quat * quat).sum(-1, keepdim=True)).sqrt()).unbind(-1)
    rows = (
        (1.0 - y * y - z * z, x * y - z * w, x * z + y * w),
        (x * y + z * w, 1.0 - x * x - z * z, y * z - x * w),
        (x * z - y * w, y * z + x * w, 1.0 - x * x - y * y),
    )
    return torch.stack([torch.stack(row, dim=-1) for row in rows], dim=-2)


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Multiply matrices, shapes (..., I, J) and (..., J, K), in float32.

    With TF32, which Isaac Lab's own training script turns on, ``a @ b`` would be off by 0.5 mm in a metre on a GPU.
    """
    return (a[..., :, :, None] * b[..., None, :, :]).sum(dim=-2)


def _on_cpu(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "cpu"


def _numpy(tensor: torch.Tensor | None) -> np.ndarray:
    """Return a tensor for numba, which takes an empty array for None."""
    return _NO_ARRAY if tensor is None else tensor.contiguous().numpy()
