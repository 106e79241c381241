# SPDX-License-Identifier: BSD-3-Clause
"""The fused operator: batched depth images to point clouds of a fixed size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from isaaclab_pc.constant_tensor import constant_tensor
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.sensors.camera_matrices import frame_change, ray_matrices
from isaaclab_pc.tensor_bytes import tensor_bytes

Sampler = Literal["random", "grid", "voxel", "fps"]
SAMPLERS: tuple[Sampler, ...] = ("random", "grid", "voxel", "fps")


@dataclass(frozen=True)
class Cloud:
    """One point cloud per environment."""

    points: torch.Tensor
    """Points [m], shape (N, K, 3)."""

    count: torch.Tensor
    """Points that are distinct pixels, shape (N,), int32. The points after them repeat them; with none, all are 0."""

    pixels: torch.Tensor
    """Where each point was seen, shape (N, K), int32: row * W + column, after the pixels of the cameras before it."""

    @property
    def mask(self) -> torch.Tensor:
        """True at the points that are distinct pixels, shape (N, K)."""
        return torch.arange(self.pixels.shape[1], device=self.count.device) < self.count[:, None]


class DepthToCloud:
    """Turn the depth images of all environments into clouds of K points, without a point image in between.

    Pixels are unprojected at their centres, (u + 0.5 - cx) / fx, which is where Newton's and RTX's renderers sample, or
    along the rays of a lens, cropped to a box, and sampled:

    - ``random``: uniformly without replacement;
    - ``grid``: one pixel from each of K equal parts of the valid pixels, taken along a curve that keeps neighbours
      together (Morton 1966), so the parts are patches of the image;
    - ``voxel``: one point from each occupied voxel, then further pixels at random;
    - ``fps``: the exact greedy farthest-point sample from a random start (Eldar et al. 1997).

    With at most K valid pixels every sampler takes them all.

    Runs in numba on the CPU, on as many threads as torch may use, and in Warp on CUDA, on torch's current stream and
    without host syncs; both take the same pixels. On the CPU the memory beside the output is one environment's scratch
    for each thread. On CUDA it is at most 2 bytes a pixel of all environments (``random`` and ``grid``: 0.13), but that
    of one environment at the least.

    Arithmetic is float32. A coordinate is off by a few units in the last place of the largest number it is made of,
    about 1e-6 m for cameras within 10 m of the frame; ``float16`` adds its own rounding, at most 2^-11 of the
    coordinate (0.25 mm below 1 m, 0.5 mm below 2 m). Points so far away that the output could overflow (16 km in
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
        backend: Literal["numba", "warp"] | None = None,
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
            backend: numba or warp; None is the faster one of the device.

        Raises:
            ConfigError: A size, the crop or the sampler is impossible.
        """
        check_cloud(image_sizes, num_points, sampler, crop_lower, crop_upper, voxel_size)
        check_buffers(num_envs, len(image_sizes), near, far, dtype, device, backend)

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

        order = pixel_order(self.image_sizes)
        self.order = np.sort(order) if sampler == "voxel" else order
        """All pixels, in the order in which they are counted, shape (P,), int32."""

        self._every_env = torch.ones(num_envs, dtype=torch.bool, device=self.device)
        backend = backend or ("numba" if self.device.type == "cpu" else "warp")
        # numba has no float16.
        kept = torch.float32 if backend == "numba" else self._dtype
        self._points = torch.zeros(num_envs, num_points, 3, dtype=kept, device=self.device)
        self._pixels = torch.zeros(num_envs, num_points, dtype=torch.int32, device=self.device)
        self._count = torch.zeros(num_envs, dtype=torch.int32, device=self.device)
        # What the backends take for "every class is kept" and "the output frame is the crop's frame".
        self._no_ids = torch.zeros(num_cameras, 0, dtype=torch.bool, device=self.device)
        self._no_frame = torch.zeros(0, 3, 4, device=self.device)

        if backend == "numba":
            from isaaclab_pc.sensors.numba_backend import NumbaBackend as Backend
        else:
            from isaaclab_pc.sensors.warp_backend import WarpBackend as Backend
        self._sample = Backend(self)

    @property
    def nbytes(self) -> int:
        """Memory of the operator's buffers [bytes], without what the CPU's threads take during a call."""
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
        n = self.num_envs
        num_cameras = len(self.image_sizes)
        depths = self._images("depth", depth, torch.float32)
        expected = {
            "intrinsics": (intrinsics, (n, num_cameras, 3, 3), torch.float32),
            "camera_pos": (camera_pos, (n, num_cameras, 3), torch.float32),
            "camera_quat": (camera_quat, (n, num_cameras, 4), torch.float32),
            "keys": (keys, (n,), torch.int32),
            "frame_pos": (frame_pos, (n, 3), torch.float32),
            "frame_quat": (frame_quat, (n, 4), torch.float32),
            "output_pos": (output_pos, (n, 3), torch.float32),
            "output_quat": (output_quat, (n, 4), torch.float32),
            "mask": (mask, (n,), torch.bool),
        }
        for name, (tensor, shape, dtype) in expected.items():
            if tensor is not None:
                self._check(name, tensor, shape, dtype)

        if removed is None and labels is not None and all(image.dtype == torch.bool for image in labels):
            labels = [image.int() for image in self._images("labels", labels, torch.bool)]
            removed = constant_tensor((False, True), self.device, torch.bool)
        if (labels is None) != (removed is None):
            raise ValueError(
                "labels and removed go together: give both, or neither; a mask, which needs none, is bool."
            )
        if labels is None or removed is None:
            # The backends want images of ids, which they do not read where no id is removed.
            label_images = tuple(image.view(torch.int32) for image in depths)
            removed = self._no_ids
        else:
            if removed.dim() == 1:
                removed = removed.expand(num_cameras, -1)
            self._check("removed", removed, (num_cameras, *removed.shape[1:2]), torch.bool)
            label_images = self._images("labels", labels, torch.int32)
        if centers is not None:
            if len(centers) != num_cameras:
                raise ValueError(f"centers has tables of {len(centers)} cameras, expected {num_cameras}.")
            for index, (table, size) in enumerate(zip(centers, self.image_sizes, strict=True)):
                self._check(f"centers[{index}]", table, (*size, 2), torch.float32)
            centers = tuple(table.contiguous() for table in centers)

        matrices = ray_matrices(intrinsics, camera_pos, camera_quat, frame_pos, frame_quat)
        to_output = self._no_frame
        if output_pos is not None or output_quat is not None:
            to_output = frame_change(frame_pos, frame_quat, output_pos, output_quat, like=camera_pos)

        points = torch.empty_like(self._points, dtype=self._dtype)
        self._sample(
            depths,
            label_images,
            removed.contiguous(),
            matrices,
            to_output,
            keys.contiguous(),
            self._every_env if mask is None else mask.contiguous(),
            self._points,
            points,
            self._pixels,
            self._count,
            centers,
        )
        return Cloud(points, self._count, self._pixels)

    def _images(
        self, name: str, images: torch.Tensor | Sequence[torch.Tensor], dtype: torch.dtype
    ) -> tuple[torch.Tensor, ...]:
        """Return one image batch per camera, checked, each (N, H, W)."""
        if isinstance(images, torch.Tensor):
            if images.dim() != 4:
                shape = (self.num_envs, len(self.image_sizes), *self.image_sizes[0])
                raise ValueError(f"{name} has shape {tuple(images.shape)}, expected (N, C, H, W) = {shape}.")
            images = images.unbind(1)

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
        return tuple(images)

    def _check(self, name: str, tensor: torch.Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        if tuple(tensor.shape) != shape:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}, expected {shape}.")
        if tensor.dtype != dtype:
            raise TypeError(f"{name} of shape {shape} is {tensor.dtype}, expected {dtype}.")
        if tensor.device != self.device:
            raise ValueError(f"{name} of shape {shape} is on {tensor.device}, expected {self.device}.")


def check_cloud(
    image_sizes: Sequence[tuple[int, int]],
    num_points: int,
    sampler: str,
    crop_lower: Sequence[float],
    crop_upper: Sequence[float],
    voxel_size: float,
) -> None:
    """Refuse the settings of a cloud that no operator can make.

    Args:
        image_sizes: (H, W) of each camera.
        num_points: Points per cloud.
        sampler: Name of the sampler.
        crop_lower: Lower corner of the crop [m].
        crop_upper: Upper corner of the crop [m].
        voxel_size: Edge of a voxel [m].

    Raises:
        ConfigError: A value is out of its range; the message names it and what would do.
    """
    for name, corner in {"crop_lower": crop_lower, "crop_upper": crop_upper}.items():
        if len(corner) != 3:
            raise ConfigError(f"{name}={tuple(corner)} has {len(corner)} values, expected 3: x, y and z [m].")

    sizes = " + ".join(f"{height} x {width}" for height, width in image_sizes)
    pixels = sum(height * width for height, width in image_sizes)
    if min((min(size) for size in image_sizes), default=0) < 1:
        raise ConfigError(f"The images of {sizes or 'no camera'} hold no pixels: give (H, W) of at least one camera.")

    if num_points < 1:
        raise ConfigError(f"num_points={num_points} must be at least 1.")
    if num_points > pixels:
        raise ConfigError(
            f"num_points={num_points} is more than the {sizes} = {pixels} pixels of the cameras: "
            f"use at most {pixels}, or larger images."
        )

    if sampler not in SAMPLERS:
        raise ConfigError(f"sampler={sampler!r} is unknown: use one of {', '.join(SAMPLERS)}.")

    for axis, lower, upper in zip("xyz", crop_lower, crop_upper, strict=True):
        if not lower < upper:
            raise ConfigError(
                f"The crop is empty along {axis}: crop_lower {lower} m is not below crop_upper {upper} m."
            )

    if sampler == "voxel":
        edges = [upper - lower for lower, upper in zip(crop_lower, crop_upper, strict=True)]
        if not voxel_size > 0:
            raise ConfigError(f"voxel_size={voxel_size} m must be above 0.")
        if not math.isfinite(sum(edges)):
            raise ConfigError(
                "sampler='voxel' needs a crop that is bounded on all sides: set crop_lower and crop_upper."
            )
        if math.prod(edge / voxel_size + 2 for edge in edges) >= 2**31:
            raise ConfigError(
                f"voxel_size={voxel_size} m cuts the crop of {' x '.join(f'{edge:g}' for edge in edges)} m into more "
                "than 2^31 voxels: use larger voxels or a smaller crop."
            )


def check_buffers(
    num_envs: int,
    num_cameras: int,
    near: float | Sequence[float],
    far: float | Sequence[float],
    dtype: str,
    device: str,
    backend: str | None,
) -> None:
    """Refuse buffers and depth limits that no operator can have.

    Args:
        num_envs: Number of environments.
        num_cameras: Number of cameras.
        near: Depth that a pixel must exceed, of all cameras or of each [m].
        far: Depth that a pixel must stay below, of all cameras or of each [m].
        dtype: Name of the points' type.
        device: Torch device.
        backend: Name of the backend; None for the device's own.

    Raises:
        ConfigError: A value is out of its range; the message names it and what would do.
    """
    if num_envs < 1:
        raise ConfigError(f"num_envs={num_envs} must be at least 1.")
    if dtype not in ("float16", "float32"):
        raise ConfigError(f"dtype={dtype!r} is unknown: use float16 or float32.")
    if backend not in (None, "numba", "warp"):
        raise ConfigError(f"backend={backend!r} is unknown: use numba or warp, or None for the faster one.")
    if backend == "numba" and torch.device(device).type != "cpu":
        raise ConfigError(f"backend='numba' runs on the CPU, not on device={device}: use backend='warp', or None.")

    for name, value in {"near": near, "far": far}.items():
        if np.shape(value) not in ((), (num_cameras,)):
            raise ConfigError(f"{name}={value} must be one depth [m], or one for each of the {num_cameras} cameras.")
    if not ((np.asarray(near) >= 0) & (np.asarray(near) < np.asarray(far))).all():
        raise ConfigError(f"near={near} m must be at least 0 and below far={far} m.")


def pixel_order(image_sizes: Sequence[tuple[int, int]]) -> np.ndarray:
    """Order pixels so that neighbours in the order are neighbours in the image (Morton 1966).

    Args:
        image_sizes: (H, W) of each camera.

    Returns:
        Every pixel of every camera once, camera by camera, shape (P,), int32.
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
