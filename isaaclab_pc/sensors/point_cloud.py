# SPDX-License-Identifier: BSD-3-Clause
"""Batched depth images to fixed-size point clouds."""

from __future__ import annotations

import torch
import warp as wp

from isaaclab_pc.sensors.kernels import sample_points
from isaaclab_pc.sensors.point_cloud_cfg import PointCloudCfg


class PointCloud:
    """Turns depth images of all environments into clouds of K points, without a point image in between.

    Pixels are unprojected at their centres, (u + 0.5 - cx) / fx, which is where Newton's and RTX's renderers sample.
    Misses (0, infinite or NaN depth) give no points. Extra memory is the output alone.
    """

    def __init__(self, cfg: PointCloudCfg, num_envs: int, device: str, seed: int = 0) -> None:
        """Allocate the output.

        Args:
            cfg: Crop, frame and size.
            num_envs: Number of environments, N.
            device: Torch device.
            seed: Seed of the draws; equal seeds and draw counters give equal clouds.
        """
        self.cfg = cfg
        self.seed = seed
        self.device = device
        self.count = torch.zeros(num_envs, dtype=torch.int32, device=device)
        """Points of the last cloud that are distinct pixels, shape (N,); the rest repeats them."""
        self._points = torch.zeros(num_envs, cfg.num_points, 3, device=device)
        self._no_labels = torch.zeros(0, 0, 0, dtype=torch.int32, device=device)
        self._none_removed = torch.zeros(1, dtype=torch.bool, device=device)
        self._dtype = getattr(torch, cfg.dtype)

    def __call__(
        self,
        depth: torch.Tensor,
        intrinsics: torch.Tensor,
        camera_pos: torch.Tensor,
        camera_quat: torch.Tensor,
        origin: torch.Tensor,
        frame_pos: torch.Tensor,
        frame_quat: torch.Tensor,
        draw: torch.Tensor,
        labels: torch.Tensor | None = None,
        removed: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Sample one cloud per environment.

        Args:
            depth: Distance to the image plane [m], shape (N, H, W), float32.
            intrinsics: Pinhole matrices [px], shape (N, 3, 3).
            camera_pos: Camera positions in the world [m], shape (N, 3).
            camera_quat: Camera orientations in the world, optical (ROS) convention, (x, y, z, w), shape (N, 4).
            origin: Environment origins in the world [m], shape (N, 3).
            frame_pos: Origin of the output frame in the environment frame [m], shape (N, 3).
            frame_quat: Orientation of the output frame in the environment frame, (x, y, z, w), shape (N, 4).
            draw: Counter that keys each environment's random draw, shape (N,), int32.
            labels: Semantic ids, shape (N, H, W), int32; None keeps every class.
            removed: True at the ids to drop, shape (num_ids,), bool.

        Returns:
            Points in the output frame [m], shape (N, K, 3), of ``cfg.dtype``. With fewer than K valid pixels the
            points repeat, with none they are zero; :attr:`count` tells.
        """
        labels = self._no_labels if labels is None else labels
        removed = self._none_removed if removed is None else removed
        wp.launch(
            sample_points,
            dim=depth.shape[0],
            inputs=[
                wp.from_torch(depth.contiguous()),
                wp.from_torch(labels.contiguous()),
                wp.from_torch(removed),
                wp.from_torch(intrinsics.contiguous(), dtype=wp.mat33f),
                _vectors(camera_pos),
                _quaternions(camera_quat),
                _vectors(origin),
                _vectors(frame_pos),
                _quaternions(frame_quat),
                self.cfg.crop_lower,
                self.cfg.crop_upper,
                self.seed,
                wp.from_torch(draw),
                wp.from_torch(self._points, dtype=wp.vec3f),
                wp.from_torch(self.count),
            ],
            device=self.device,
        )
        return self._points.to(self._dtype, copy=True)


def _vectors(tensor: torch.Tensor) -> wp.array:
    return wp.from_torch(tensor.contiguous(), dtype=wp.vec3f)


def _quaternions(tensor: torch.Tensor) -> wp.array:
    return wp.from_torch(tensor.contiguous(), dtype=wp.quatf)
