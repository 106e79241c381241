# SPDX-License-Identifier: BSD-3-Clause
"""The fused operator: batched depth images to point clouds of a fixed size."""

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch

from isaaclab_pc.sensors.camera_matrices import frame_change, ray_matrices
from isaaclab_pc.sensors.cloud import Cloud
from isaaclab_pc.sensors.cloud_checks import Sampler, check_buffers, check_cloud
from isaaclab_pc.sensors.pixel_sampler import PixelSampler
from isaaclab_pc.sensors.point_sampler import CANDIDATES, PointSampler, moved
from isaaclab_pc.tensors.constant_tensor import constant_tensor
from isaaclab_pc.tensors.tensor_bytes import tensor_bytes


class DepthToCloud:
    """Turn the depth images of all environments into clouds of K points, without a point image in between.

    Pixels are unprojected at their centres, (u + 0.5 - cx) / fx, where Newton's and RTX's renderers sample, or along
    the rays of a lens, cropped to a box, and sampled:

    - ``random``: uniformly without replacement;
    - ``grid``: one pixel from each of K equal parts of the valid pixels, taken along a curve that keeps neighbours
      together (Morton 1966), so the parts are patches of the image;
    - ``voxel``: one point from each occupied voxel, then others at random, among 4 K random pixels;
    - ``fps``: the greedy farthest-point sample from a random start (Eldar et al. 1997), among 4 K random pixels.

    With at most K valid pixels every sampler takes them all; with at most 4 K, ``voxel`` and ``fps`` choose among all.

    It runs in Warp: on CUDA on torch's current stream and without host syncs, on one thread of a CPU. Both draw the
    same pixels.

    Beside the output it needs 0.13 bytes a pixel of all environments. The 4 K pixels take 16 bytes each, and up to 80
    more during a call.

    Arithmetic is float32: a coordinate is off by about 1e-6 m for cameras within 10 m of the frame. ``float16`` adds at
    most 2^-11 of the coordinate (0.25 mm below 1 m). Points so far away that the output could overflow (16 km in
    ``float16``) are cropped.
    """

    def __init__(
        self,
        num_envs: int,
        image_sizes: Sequence[tuple[int, int]],
        num_points: int,
        *,
        sampler: Sampler = "random",
        crop_lower: Sequence[float] = (-math.inf,) * 3,
        crop_upper: Sequence[float] = (math.inf,) * 3,
        voxel_size: float = 0.01,
        near: float | Sequence[float] = 0.0,
        far: float | Sequence[float] = math.inf,
        dtype: Literal["float16", "float32"] = "float16",
        device: str = "cpu",
    ) -> None:
        """Allocate the buffers.

        Args:
            num_envs: Number of environments, N.
            image_sizes: (H, W) of each of the C cameras.
            num_points: Points per cloud, K; at most the pixels of all cameras.
            sampler: How K points are chosen.
            crop_lower: Smallest x, y, z kept, in the crop's frame [m].
            crop_upper: Largest x, y, z kept, in the crop's frame [m].
            voxel_size: Edge of a voxel [m]; needed by ``voxel`` only, together with a finite crop.
            near: Depth that a pixel must exceed, of all cameras or of each [m]. Misses read 0.
            far: Depth that a pixel must stay below, of all cameras or of each [m]. Misses read infinity or the far
                clipping distance.
            dtype: Type of the points.
            device: Torch device.

        Raises:
            ConfigError: A size, the crop or the sampler is impossible.
        """
        check_cloud(image_sizes, num_points, sampler, crop_lower, crop_upper, voxel_size)
        check_buffers(num_envs, len(image_sizes), near, far, dtype)

        self.num_envs = num_envs
        self.image_sizes = [(int(height), int(width)) for height, width in image_sizes]
        self.num_points = num_points
        self.sampler = sampler
        # A device without a number, such as cuda, is the current one: Warp asks for its number.
        self.device = torch.empty(0, device=device).device
        self._dtype: torch.dtype = getattr(torch, dtype)

        # A quarter of the largest number: turned and moved to the output frame, coordinates must still be finite.
        limit = torch.finfo(self._dtype).max / 4
        self.crop = np.clip(np.array([crop_lower, crop_upper]), -limit, limit).astype(np.float32)
        self.voxel_size = voxel_size
        num_cameras = len(self.image_sizes)
        self.near = np.broadcast_to(np.asarray(near, dtype=np.float32), num_cameras).copy()
        self.far = np.broadcast_to(np.asarray(far, dtype=np.float32), num_cameras).copy()

        self._every_env = torch.ones(num_envs, dtype=torch.bool, device=self.device)
        self._points = torch.zeros(num_envs, num_points, 3, dtype=self._dtype, device=self.device)
        self._pixels = torch.zeros(num_envs, num_points, dtype=torch.int32, device=self.device)
        self._count = torch.zeros(num_envs, dtype=torch.int32, device=self.device)
        # What the pixel sampler takes for "every class is kept" and "the output frame is the crop's frame".
        self._no_ids = torch.zeros(num_cameras, 0, dtype=torch.bool, device=self.device)
        self._no_frame = torch.zeros(0, 3, 4, device=self.device)
        # Of the arguments that were checked last: most callers give the same in every frame.
        self._checked: tuple[Any, ...] | None = None

        # The samplers that compare points choose among those of another operator.
        self._candidates: DepthToCloud | None = None
        if sampler in ("voxel", "fps"):
            lower, upper = self.crop.tolist()
            self._candidates = DepthToCloud(
                num_envs,
                image_sizes,
                min(CANDIDATES * num_points, sum(height * width for height, width in self.image_sizes)),
                crop_lower=lower,
                crop_upper=upper,
                near=near,
                far=far,
                dtype="float32",
                device=device,
            )
            self._choose = PointSampler(sampler, num_points, self.image_sizes, self.crop, voxel_size, self.device)
            return

        self._sample = PixelSampler(self)

    @property
    def nbytes(self) -> int:
        """Memory of the operator's buffers [bytes]."""
        if self._candidates is not None:
            return self._candidates.nbytes + tensor_bytes(self, self._choose)
        return tensor_bytes(self, self._sample)

    @torch.no_grad()
    def __call__(
        self,
        depth: torch.Tensor | Sequence[torch.Tensor],
        intrinsics: torch.Tensor,
        camera_pos: torch.Tensor,
        camera_quat: torch.Tensor,
        keys: torch.Tensor,
        *,
        frame_pos: torch.Tensor | None = None,
        frame_quat: torch.Tensor | None = None,
        output_pos: torch.Tensor | None = None,
        output_quat: torch.Tensor | None = None,
        labels: torch.Tensor | Sequence[torch.Tensor] | None = None,
        removed: torch.Tensor | None = None,
        mask: torch.Tensor | None = None,
        centers: Sequence[torch.Tensor] | None = None,
    ) -> Cloud:
        """Sample one cloud per environment.

        Args:
            depth: Distance to the image plane [m], float32: shape (N, C, H, W), or one (N, H, W) per camera. Zero,
                negative, infinite and NaN depth gives no point.
            intrinsics: Pinhole matrices [px], shape (N, C, 3, 3).
            camera_pos: Camera positions in the world [m], shape (N, C, 3).
            camera_quat: Camera orientations in the world, optical (ROS) convention, (x, y, z, w), shape (N, C, 4).
            keys: Key of each environment's random draw, shape (N,), int32. Equal keys and images give equal clouds.
            frame_pos: Origin of the crop's frame in the world [m], shape (N, 3); None is the world's origin.
            frame_quat: Orientation of the crop's frame in the world, shape (N, 4); None is the world's.
            output_pos: Origin of the points' frame in the world [m], shape (N, 3); None is the crop's frame.
            output_quat: Orientation of the points' frame in the world, shape (N, 4); None is the crop's frame.
            labels: Semantic ids, int32, shaped as ``depth``; or a mask, bool, True at the pixels that give no point.
                None keeps every pixel.
            removed: True at the semantic ids that give no point, bool, shape (number of ids,), or one row for each
                camera, shape (C, number of ids); ids beyond it are kept. None with a mask.
            mask: Environments to sample, shape (N,), bool; the others keep their last cloud. None samples all.
            centers: Where a pinhole with the camera's matrix would see what each pixel sees [px], one (H, W, 2) per
                camera, float32: how a lens bends its rays. None: in the pixel's middle, (u + 0.5, v + 0.5).

        Returns:
            The clouds. ``points`` is a new tensor; ``count`` and ``pixels`` are overwritten by the next call.

        Raises:
            ValueError: A tensor has another shape, device or memory layout than is said here.
            TypeError: A tensor has another dtype.
        """
        single = (intrinsics, camera_pos, camera_quat, keys, frame_pos, frame_quat, output_pos, output_quat, mask)
        layout = (_layout(depth), _layout(labels), _layout(removed), _layout(centers), *map(_layout, single))
        if layout != self._checked:
            self._check_images("depth", depth, torch.float32)
            self._check_labels(labels, removed)
            self._check_centers(centers)
            self._check_single(*single)
            self._checked = layout

        to_output = self._no_frame
        if output_pos is not None or output_quat is not None:
            to_output = frame_change(frame_pos, frame_quat, output_pos, output_quat, like=camera_pos)

        mask = self._every_env if mask is None else mask.contiguous()
        if self._candidates is not None:
            given = self._candidates(
                depth,
                intrinsics,
                camera_pos,
                camera_quat,
                keys,
                frame_pos=frame_pos,
                frame_quat=frame_quat,
                labels=labels,
                removed=removed,
                mask=mask,
                centers=centers,
            )
            return self._keep(self._choose(given, keys), to_output, mask)

        depths = _per_camera(depth)
        if labels is None:
            # The kernels want images of ids, which they do not read where no id is removed.
            label_images = tuple(image.view(torch.int32) for image in depths)
            removed = self._no_ids
        else:
            label_images = _per_camera(labels)
            if removed is None:
                label_images = tuple(image.int() for image in label_images)
                removed = constant_tensor((False, True), self.device, torch.bool)
            if removed.dim() == 1:
                removed = removed.expand(len(self.image_sizes), -1)
        if centers is not None:
            centers = tuple(table.contiguous() for table in centers)

        matrices = ray_matrices(intrinsics, camera_pos, camera_quat, frame_pos, frame_quat)
        points = torch.empty_like(self._points, dtype=self._dtype)
        self._sample(
            depths,
            label_images,
            removed.contiguous(),
            matrices,
            to_output,
            keys.contiguous(),
            mask,
            self._points,
            points,
            self._pixels,
            self._count,
            centers,
        )
        return Cloud(points, self._count, self._pixels)

    def _keep(self, cloud: Cloud, to_output: torch.Tensor, mask: torch.Tensor) -> Cloud:
        """Write what was chosen, in the crop's frame; the environments that are not in ``mask`` keep their cloud."""
        points = moved(cloud, to_output).to(self._points.dtype)
        torch.where(mask[:, None, None], points, self._points, out=self._points)
        torch.where(mask[:, None], cloud.pixels, self._pixels, out=self._pixels)
        torch.where(mask, cloud.count, self._count, out=self._count)
        return Cloud(self._points.to(self._dtype, copy=True), self._count, self._pixels)

    def _check_images(self, name: str, images: torch.Tensor | Sequence[torch.Tensor], dtype: torch.dtype) -> None:
        if isinstance(images, torch.Tensor) and images.dim() != 4:
            shape = (self.num_envs, len(self.image_sizes), *self.image_sizes[0])
            raise ValueError(f"{name} has shape {tuple(images.shape)}, expected (N, C, H, W) = {shape}.")

        images = _per_camera(images)
        if len(images) != len(self.image_sizes):
            raise ValueError(f"{name} has images of {len(images)} cameras, expected {len(self.image_sizes)}.")
        for index, (image, size) in enumerate(zip(images, self.image_sizes, strict=True)):
            where = f"{name}[{index}]"
            self._check(where, image, (self.num_envs, *size), dtype)
            if not image[0].is_contiguous():
                raise ValueError(
                    f"The images of {where}, shape {tuple(image.shape)}, are not contiguous (strides "
                    f"{image.stride()}): pass {name}.contiguous()."
                )

    def _check_labels(self, labels: torch.Tensor | Sequence[torch.Tensor] | None, removed: torch.Tensor | None) -> None:
        is_mask = labels is not None and all(image.dtype == torch.bool for image in labels)
        if (labels is None) != (removed is None) and not (is_mask and removed is None):
            raise ValueError(
                "labels and removed go together: give both, or neither; a mask, which needs none, is bool."
            )
        if removed is not None and removed.dim() == 1:
            self._check("removed", removed, tuple(removed.shape), torch.bool)
        elif removed is not None:
            self._check("removed", removed, (len(self.image_sizes), *removed.shape[1:2]), torch.bool)
        if labels is not None:
            self._check_images("labels", labels, torch.bool if removed is None else torch.int32)

    def _check_centers(self, centers: Sequence[torch.Tensor] | None) -> None:
        if centers is None:
            return
        if len(centers) != len(self.image_sizes):
            raise ValueError(f"centers has tables of {len(centers)} cameras, expected {len(self.image_sizes)}.")
        for index, (table, size) in enumerate(zip(centers, self.image_sizes, strict=True)):
            self._check(f"centers[{index}]", table, (*size, 2), torch.float32)

    def _check_single(self, *tensors: torch.Tensor | None) -> None:
        """Check the arguments that are one tensor, in the order of :meth:`__call__`; the mask is the last one."""
        n = self.num_envs
        num_cameras = len(self.image_sizes)
        expected = {
            "intrinsics": ((n, num_cameras, 3, 3), torch.float32),
            "camera_pos": ((n, num_cameras, 3), torch.float32),
            "camera_quat": ((n, num_cameras, 4), torch.float32),
            "keys": ((n,), torch.int32),
            "frame_pos": ((n, 3), torch.float32),
            "frame_quat": ((n, 4), torch.float32),
            "output_pos": ((n, 3), torch.float32),
            "output_quat": ((n, 4), torch.float32),
            "mask": ((n,), torch.bool),
        }
        for tensor, (name, (shape, dtype)) in zip(tensors, expected.items(), strict=True):
            if tensor is not None:
                self._check(name, tensor, shape, dtype)

    def _check(self, name: str, tensor: torch.Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        if tuple(tensor.shape) != shape:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}, expected {shape}.")
        if tensor.dtype != dtype:
            raise TypeError(f"{name} of shape {shape} is {tensor.dtype}, expected {dtype}.")
        if tensor.device != self.device:
            raise ValueError(f"{name} of shape {shape} is on {tensor.device}, expected {self.device}.")


def _layout(given: torch.Tensor | Sequence[torch.Tensor] | None) -> Any:
    if isinstance(given, torch.Tensor):
        return given.shape, given.stride(), given.dtype, given.device
    return None if given is None else tuple(map(_layout, given))


def _per_camera(images: torch.Tensor | Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Return one image batch for each camera, each (N, H, W)."""
    return images.unbind(1) if isinstance(images, torch.Tensor) else tuple(images)
