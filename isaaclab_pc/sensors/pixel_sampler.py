# SPDX-License-Identifier: BSD-3-Clause
"""Draws the pixels of clouds: runs Warp's kernels on torch tensors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import warp as wp

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.sensors.cloud import pixel_order
from isaaclab_pc.sensors.kernels import matrix_kernels, pixel_kernels, rank_kernels, valid_pixel_kernels
from isaaclab_pc.sensors.kernels.pixel_kernels import WARP_LANES
from isaaclab_pc.tensors.warp_stream import current_stream

if TYPE_CHECKING:
    from isaaclab_pc.sensors.depth_to_cloud import DepthToCloud

WORDS_OF_WARP = (4, 16)
"""Least and most words that a warp looks at. It reads a camera's matrix once for all of them."""

WARPS_OF_GPU = 2**14
"""Warps from which on they get more words each: twice what the 132 multiprocessors of an H100 hold at a time."""

MOST_ROWS = 2**15
MOST_COLUMNS = 2**16
"""Image sizes for which row << 16 | column is a positive int32."""


class PixelSampler:
    """Draw valid pixels of images, on CUDA on torch's current stream, and on a CPU the same ones.

    All memory is allocated once: 0.125 bytes per pixel of all environments, a bit each. A call waits for nothing, so it
    can be captured in a CUDA graph.

    Each camera is rounded up to 32 pixels. All environments share the order of the pixels, 4 bytes each.
    """

    def __init__(self, operator: DepthToCloud) -> None:
        """Take the operator's constants, allocate scratch memory, and compile or load the kernels."""
        wp.init()
        self._device = wp.device_from_torch(operator.device)
        self._torch_device = operator.device
        self._block_lanes, self._warp_lanes = pixel_kernels.lanes_on(str(operator.device))
        self._is_grid = operator.sampler == "grid"

        self._make_scene(operator)
        n = operator.num_envs
        words = torch.zeros(n, self._scene.order.shape[0] // WARP_LANES, dtype=torch.int32, device=operator.device)
        # Torch's memory, so that torch's statistics include it.
        self._words = wp.from_torch(words, dtype=wp.uint32)

        # Kernels cannot be compiled while a CUDA graph is captured.
        wp.load_module(valid_pixel_kernels, device=self._device, block_dim=self._block_lanes)
        wp.load_module(matrix_kernels, device=self._device)
        wp.load_module(rank_kernels, device=self._device, block_dim=self._block_lanes)

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
        """Fill ``kept``, ``pixels`` and ``count`` of the masked environments, and copy all of ``kept`` to ``points``.

        Depths [m], float32, and ids, int32, are (N, H, W) of each camera; ids are not read where ``removed``, (C, ids),
        is empty. ``matrices``, (N, C, 3, 4), take (z u, z v, z, 1) to the crop's frame, ``to_output``, (N, 3, 4), from
        there to the points' frame; it is empty where both are one. ``kept`` and ``points``, (N, K, 3), are of one type,
        float16 or float32, and ``pixels``, (N, K), are numbered through all cameras. The others are those of
        :class:`DepthToCloud`.
        """
        # The tensors keep their names, since _array keeps their addresses only.
        matrices = matrices.contiguous()
        to_output = to_output.contiguous()
        scene = [self._scene, _array(matrices, pixel_kernels.Matrix)]
        wp_mask = _array(mask, wp.bool)
        self._mark(scene, depths, labels, centers, _array(removed, wp.bool), wp_mask)

        dtype = wp.dtype_from_torch(points.dtype)
        arguments = [
            *scene,
            _array(to_output, pixel_kernels.Matrix),
            _array(keys, wp.int32),
            wp_mask,
            self._words,
            not self._is_grid,
            _array(kept, dtype),
            _array(points, dtype),
            _array(pixels, wp.int32),
            _array(count, wp.int32),
        ]
        self._launch(rank_kernels.SAMPLE[dtype], len(pixels) * self._block_lanes, arguments)

    def _mark(self, scene: list[Any], depths: Any, labels: Any, centers: Any, removed: Any, mask: Any) -> None:
        num_envs = self._words.shape[0]
        images = zip(self._cameras, self._env_bits, depths, labels, strict=True)
        for index, (camera, env_bits, image, classes) in enumerate(images):
            camera.images = image.data_ptr()
            camera.stride = image.stride(0) * image.element_size()
            camera.centers = 0 if centers is None else centers[index].data_ptr()
            # Another type of argument is another kernel, that of a pinhole.
            table = wp.int32(0) if centers is None else wp.uint64(camera.centers)
            self._launch(
                valid_pixel_kernels.MARK[type(table)],
                (num_envs << env_bits) * self._warp_lanes,
                [index, camera, table, _array(classes, wp.int32), removed, env_bits, *scene, mask, self._words],
            )

    def _launch(self, kernel: Any, dim: int | tuple[int, ...], inputs: list[Any]) -> None:
        stream = current_stream(self._torch_device)
        wp.launch(kernel, dim=dim, inputs=inputs, device=self._device, stream=stream, block_dim=self._block_lanes)

    def _make_scene(self, operator: DepthToCloud) -> None:
        self._cameras = []
        # Logarithm of the warps for each environment.
        self._env_bits: list[int] = []
        order = pixel_order(operator.image_sizes)
        slots = []
        first_pixel = 0
        first_word = 0
        for (height, width), near, far in zip(operator.image_sizes, operator.near, operator.far, strict=True):
            if height > MOST_ROWS or width > MOST_COLUMNS:
                raise ConfigError(
                    f"An image of {height} x {width} pixels is more than Warp's kernels number: use at most "
                    f"{MOST_ROWS} x {MOST_COLUMNS}."
                )
            camera = pixel_kernels.Camera()
            camera.width = width
            camera.num_pixels = height * width
            camera.first_pixel = first_pixel
            camera.num_words = math.ceil(camera.num_pixels / WARP_LANES)
            camera.first_word = first_word
            camera.near = float(near)
            camera.far = float(far)
            self._cameras.append(camera)
            words_of_warp = np.clip(operator.num_envs * camera.num_words // WARPS_OF_GPU, *WORDS_OF_WARP)
            warps = math.ceil(camera.num_words / words_of_warp)
            self._env_bits.append((warps - 1).bit_length())

            # Slots after the camera's last pixel stay empty.
            pixels = np.full(WARP_LANES * camera.num_words, -1, dtype=np.int32)
            last_pixel = first_pixel + camera.num_pixels
            row, column = np.divmod(order[first_pixel:last_pixel] - first_pixel, width)
            pixels[: camera.num_pixels] = row << 16 | column
            slots.append(pixels)

            first_pixel = last_pixel
            first_word += camera.num_words

        self._scene = pixel_kernels.Scene()
        self._scene.cameras = wp.array(self._cameras, dtype=pixel_kernels.Camera, device=self._device)
        self._scene.order = wp.array(np.concatenate(slots), dtype=wp.int32, device=self._device)
        self._scene.crop_lower, self._scene.crop_upper = (wp.vec3f(*corner) for corner in operator.crop.tolist())


def _array(tensor: torch.Tensor, dtype: Any) -> Any:
    # Only the address, which is faster to make than a wp.array: the caller keeps the tensor alive.
    return wp.from_torch(tensor, dtype=dtype, return_ctype=True)
