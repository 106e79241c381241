# SPDX-License-Identifier: BSD-3-Clause
"""Runs the cloud operator's Warp kernels on torch tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import warp as wp

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.sensors.kernels import warp_base_kernels as base
from isaaclab_pc.sensors.kernels import warp_farthest_kernels as farthest_kernels
from isaaclab_pc.sensors.kernels import warp_kernels as kernels
from isaaclab_pc.sensors.kernels import warp_matrix_kernels as matrix_kernels
from isaaclab_pc.sensors.kernels import warp_rank_kernels as rank_kernels
from isaaclab_pc.sensors.kernels.warp_base_kernels import WARP_LANES
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

SCRATCH_BYTES_PER_PIXEL = 2
"""Scratch memory for each pixel of all environments that a sampler may use, unless one environment needs more."""

VOXEL_PLACES_PER_PIXEL = 1.25
"""Places of the hash table for each pixel: with every pixel in a voxel of its own, four of five are taken."""


class WarpBackend:
    """Run :mod:`isaaclab_pc.sensors.kernels.warp_kernels` on torch's current stream.

    All scratch memory is allocated once. A call allocates nothing and waits for nothing, so it can be captured in a
    CUDA graph. In bytes per pixel of all environments:

    - valid pixels: 0.125, a bit each, and for ``voxel`` and ``fps`` 0.125 more, 4 bytes for every 32 of them;
    - ``voxel``: 0.25 for the first pixels of voxels, and 5 per pixel of the environments that are sampled together;
    - ``fps``: none on CUDA up to 4,096 pixels an environment, which stay in registers; else 4 likewise.

    As many environments are sampled together as fit into 2 bytes per pixel of all of them, but at least one. Each
    camera is rounded up to 32 pixels. All environments share the order of the pixels, 4 bytes each.
    """

    def __init__(self, operator: DepthToCloud) -> None:
        """Take the operator's constants, allocate scratch memory, and compile or load the kernels."""
        wp.init()
        self._device = wp.device_from_torch(operator.device)
        self._torch_device = operator.device
        self._block_lanes, self._warp_lanes = base.lanes_on(str(operator.device))
        self._scratch: list[torch.Tensor] = []
        self._sampler = operator.sampler
        self._takes_ranks = operator.sampler in ("random", "grid")

        self._make_scene(operator)
        num_envs = operator.num_envs
        slots = self._scene.order.shape[0]
        self._valid = self._make_bits(num_envs, slots, is_counted=not self._takes_ranks)
        self._first = self._make_bits(num_envs if operator.sampler == "voxel" else 0, slots)
        self._first_words = wp.to_torch(self._first.words)

        # Kernels cannot be compiled while a CUDA graph is captured.
        wp.load_module(kernels, device=self._device, block_dim=self._block_lanes)
        wp.load_module(matrix_kernels, device=self._device)
        if self._takes_ranks:
            wp.load_module(rank_kernels, device=self._device, block_dim=self._block_lanes)
        if operator.sampler == "fps":
            wp.load_module(farthest_kernels, device=self._device, block_dim=self._block_lanes)

        # Whether an environment may have more points than the registers of a block hold.
        self._has_many = slots > farthest_kernels.POINTS_OF_LANE * self._block_lanes
        if operator.sampler == "voxel" or (operator.sampler == "fps" and self._has_many):
            self._work = self._allocate_work(num_envs, len(operator.order), slots)

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
        """Fill ``kept``, ``pixels`` and ``count`` of the masked environments, and all of ``points``.

        The arguments are those of :func:`~isaaclab_pc.sensors.kernels.numba_kernels.sample_clouds`, as tensors; its
        ``points`` are ``kept`` here, and ``points`` are a copy. Both are of one type, float16 or float32.
        """
        num_envs, num_points = pixels.shape
        # The tensors keep their names, since _array keeps their addresses only.
        matrices = matrices.contiguous()
        to_output = to_output.contiguous()
        wp_matrices = _array(matrices, base.Matrix)
        wp_to_output = _array(to_output, base.Matrix)
        wp_keys = _array(keys, wp.int32)
        wp_mask = _array(mask, wp.bool)
        dtype = wp.dtype_from_torch(points.dtype)
        wp_kept = _array(kept, dtype)
        wp_points = _array(points, dtype)
        wp_pixels = _array(pixels, wp.int32)
        wp_count = _array(count, wp.int32)
        scene = [self._scene, wp_matrices]

        self._mark(scene, depths, labels, centers, _array(removed, wp.bool), wp_mask)
        inputs = [*scene, wp_to_output, wp_keys, wp_mask]
        outputs = [wp_kept, wp_points, wp_pixels, wp_count]
        if self._takes_ranks:
            is_random = self._sampler == "random"
            arguments = [*inputs, self._valid.words, is_random, *outputs]
            self._launch(rank_kernels.SAMPLE[dtype], num_envs * self._block_lanes, arguments)
            return

        is_voxel = self._sampler == "voxel"
        self._launch(kernels.count_bits, num_envs * self._block_lanes, [self._valid])
        if is_voxel:
            self._find_voxels([*scene, wp_keys, wp_mask, self._valid], wp_keys, num_envs, num_points)
        else:
            self._pick_farthest([*scene, wp_keys, wp_mask, self._valid], wp_pixels, num_envs)
        env_bits = _bits_of(num_points)
        arguments = [*inputs, self._valid, is_voxel, self._first, env_bits, *outputs]
        self._launch(kernels.EMIT[dtype], num_envs << env_bits, arguments)

    def _mark(self, scene: list[Any], depths: Any, labels: Any, centers: Any, removed: Any, mask: Any) -> None:
        """Set the bits of the valid pixels of all cameras."""
        num_envs = self._valid.words.shape[0]
        images = zip(self._cameras, self._env_bits, depths, labels, strict=True)
        for index, (camera, env_bits, image, classes) in enumerate(images):
            camera.images = image.data_ptr()
            camera.stride = image.stride(0) * image.element_size()
            camera.centers = 0 if centers is None else centers[index].data_ptr()
            # Another type of argument is another kernel, that of a pinhole.
            table = wp.int32(0) if centers is None else wp.uint64(camera.centers)
            self._launch(
                kernels.MARK[type(table)],
                (num_envs << env_bits) * self._warp_lanes,
                [index, camera, table, _array(classes, wp.int32), removed, env_bits, *scene, mask, self._valid],
            )

    def _find_voxels(self, inputs: list[Any], keys: Any, num_envs: int, num_points: int) -> None:
        slots = self._scene.order.shape[0]
        places = self._work.shape[1]
        self._first_words.zero_()
        for env, rows in self._rounds(num_envs):
            self._launch(kernels.enter_voxels, (rows, slots), [env, *inputs, num_points, self._work])
            self._launch(
                kernels.collect_voxels, (rows, places), [env, slots, keys, self._valid, self._work, self._first]
            )
        self._launch(kernels.count_bits, num_envs * self._block_lanes, [self._first])

    def _pick_farthest(self, inputs: list[Any], pixels: Any, num_envs: int) -> None:
        self._launch(farthest_kernels.pick_farthest_of_few, num_envs * self._block_lanes, [*inputs, pixels])
        if self._has_many:
            for env, rows in self._rounds(num_envs):
                many = farthest_kernels.pick_farthest_of_many
                self._launch(many, rows * self._block_lanes, [env, *inputs, self._work, pixels])

    def _rounds(self, num_envs: int) -> Iterator[tuple[int, int]]:
        """Yield the first of the environments that there is scratch memory for at a time, and how many they are."""
        together = self._work.shape[0]
        for env in range(0, num_envs, together):
            yield env, min(together, num_envs - env)

    def _launch(self, kernel: Any, dim: int | tuple[int, ...], inputs: list[Any]) -> None:
        stream = current_stream(self._torch_device)
        wp.launch(kernel, dim=dim, inputs=inputs, device=self._device, stream=stream, block_dim=self._block_lanes)

    def _make_scene(self, operator: DepthToCloud) -> None:
        self._cameras = []
        # Logarithm of the warps for each environment.
        self._env_bits: list[int] = []
        order = []
        first_pixel = 0
        first_word = 0
        for (height, width), near, far in zip(operator.image_sizes, operator.near, operator.far, strict=True):
            if height > MOST_ROWS or width > MOST_COLUMNS:
                raise ConfigError(
                    f"An image of {height} x {width} pixels is more than Warp's kernels number: use at most "
                    f"{MOST_ROWS} x {MOST_COLUMNS}."
                )
            camera = base.Camera()
            camera.width = width
            camera.num_pixels = height * width
            camera.first_pixel = first_pixel
            camera.num_words = _ceil_div(camera.num_pixels, WARP_LANES)
            camera.first_word = first_word
            camera.near = float(near)
            camera.far = float(far)
            self._cameras.append(camera)
            words_of_warp = np.clip(operator.num_envs * camera.num_words // WARPS_OF_GPU, *WORDS_OF_WARP)
            self._env_bits.append(_bits_of(_ceil_div(camera.num_words, int(words_of_warp))))

            # Slots after the camera's last pixel stay empty.
            pixels = np.full(WARP_LANES * camera.num_words, -1, dtype=np.int32)
            last_pixel = first_pixel + camera.num_pixels
            row, column = np.divmod(operator.order[first_pixel:last_pixel] - first_pixel, width)
            pixels[: camera.num_pixels] = row << 16 | column
            order.append(pixels)

            first_pixel = last_pixel
            first_word += camera.num_words

        self._scene = base.Scene()
        self._scene.cameras = wp.array(self._cameras, dtype=base.Camera, device=self._device)
        self._scene.order = wp.array(np.concatenate(order), dtype=wp.int32, device=self._device)
        self._scene.crop_lower, self._scene.crop_upper = (wp.vec3f(*corner) for corner in operator.crop.tolist())
        if operator.sampler == "voxel":
            per_metre = np.float32(1.0) / np.float32(operator.voxel_size)
            voxels = ((operator.crop[1] - operator.crop[0]) * per_metre).astype(np.int32) + 1
            self._scene.voxels_per_metre = float(per_metre)
            self._scene.voxels_y = int(voxels[1])
            self._scene.voxels_z = int(voxels[2])

    def _allocate_work(self, num_envs: int, num_pixels: int, slots: int) -> wp.array:
        """Allocate the hash tables (``voxel``) or distances (``fps``) of the environments that are sampled together."""
        is_voxel = self._sampler == "voxel"
        columns = int(VOXEL_PLACES_PER_PIXEL * num_pixels) + 1 if is_voxel else slots
        dtype = torch.int32 if is_voxel else torch.float32

        left = SCRATCH_BYTES_PER_PIXEL * num_envs * num_pixels - sum(tensor.nbytes for tensor in self._scratch)
        most_rows = int(np.clip(left // (4 * columns), 1, num_envs))
        # As many in each round, so that the last one does not run nearly empty.
        rows = _ceil_div(num_envs, _ceil_div(num_envs, most_rows))
        return self._allocate((rows, columns), dtype, fill=kernels.FREE)

    def _make_bits(self, num_envs: int, slots: int, *, is_counted: bool = True) -> Any:
        bits = base.Bits()
        bits.words = self._allocate((num_envs, slots // WARP_LANES), torch.int32, wp.uint32)
        counted = num_envs if is_counted else 0
        bits.before = self._allocate((counted, slots // WARP_LANES), torch.int32)
        bits.total = self._allocate((counted,), torch.int32)
        return bits

    def _allocate(self, shape: tuple[int, ...], dtype: torch.dtype, wp_dtype: Any = None, fill: int = 0) -> wp.array:
        # Torch's memory, so that torch's statistics include it.
        tensor = torch.full(shape, fill, dtype=dtype, device=self._torch_device)
        self._scratch.append(tensor)
        return wp.from_torch(tensor, dtype=wp_dtype)


def _ceil_div(value: int, divisor: int) -> int:
    return -(-value // divisor)


def _bits_of(count: int) -> int:
    """Return how many bits number so many things."""
    return (count - 1).bit_length()


def _array(tensor: torch.Tensor, dtype: Any) -> Any:
    # Only the address, which is faster to make than a wp.array: the caller keeps the tensor alive.
    return wp.from_torch(tensor, dtype=dtype, return_ctype=True)
