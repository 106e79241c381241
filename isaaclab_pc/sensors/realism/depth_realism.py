# SPDX-License-Identifier: BSD-3-Clause
"""Errors of a real depth camera, put on rendered depth, on the camera's calibration and on the time of a frame."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
import warp as wp
from isaaclab.utils.math import quat_apply, quat_from_angle_axis, quat_mul

from isaaclab_pc.sensors.kernels import pixel_kernels
from isaaclab_pc.sensors.realism import kernels
from isaaclab_pc.sensors.realism.cfg import (
    DepthRealismCfg,
    GaussianNoiseCfg,
    Range,
    StereoNoiseCfg,
    StructuredLightNoiseCfg,
    as_cfgs,
    bounds,
)
from isaaclab_pc.tensors.keyed_random import keyed_uniform
from isaaclab_pc.tensors.warp_stream import current_stream

_PIXEL_STREAM = 0
_CALIBRATION_STREAM = 1
_LATENCY_STREAM = 2

_CALIBRATION_COLUMNS = 9
"""Numbers drawn for a camera: position 3, rotation 3, focal length 1, principal point 2."""


class DepthRealism:
    """Applies a :class:`DepthRealismCfg`, or one of several in each environment, to the depth cameras.

    Single cameras may have errors of their own.

    :meth:`redraw` draws what stays the same for an episode (which of several, values between bounds, calibration
    errors, latency), :meth:`corrupt` the noise of a frame. Equal keys give equal errors, at any index of an
    environment. No method waits for the device or allocates anything of the images' size after the first call, so a
    CUDA graph can capture each.
    """

    def __init__(
        self,
        cfg: DepthRealismCfg | Sequence[DepthRealismCfg],
        image_sizes: Sequence[tuple[int, int]],
        num_envs: int,
        device: str,
        far: Sequence[float] | None = None,
        of_cameras: Mapping[int, DepthRealismCfg] = MappingProxyType({}),
    ) -> None:
        """Allocate what an episode keeps, and draw the first.

        Args:
            cfg: Which errors; of several, each environment draws one at each reset. One without errors stands for
                perfect depth of all cameras.
            image_sizes: Height and width [px] of each camera's image.
            num_envs: Number of environments, N.
            device: Torch device.
            far: Depth from which each camera's pixel is a miss [m], for a renderer that writes its far clip where it
                hits nothing: noise would turn the clip into a wall. None: infinity.
            of_cameras: Errors of cameras, by index, that have others than ``cfg``; frames are as old as it says.

        Raises:
            ConfigError: A setting is out of its range.
        """
        drawn = as_cfgs(cfg)
        self.cfgs = (*drawn, *of_cameras.values())
        """Errors among which each environment draws, then those of single cameras."""
        for one in self.cfgs:
            one.check()
        wp.init()
        self.num_envs = num_envs
        self.device = torch.empty(0, device=device).device
        self._sizes = [(int(height), int(width)) for height, width in image_sizes]
        self._env_ids = torch.arange(num_envs, device=self.device)
        self._num_drawn = len(drawn)
        own = [-1] * len(self._sizes)
        for position, camera in enumerate(of_cameras):
            own[camera] = len(drawn) + position
        self._own = torch.tensor(own, device=self.device)
        self._is_perfect = torch.tensor([one == DepthRealismCfg() for one in drawn], device=self.device)

        self._read_settings([float("inf")] * len(self._sizes) if far is None else far)
        self._allocate_calibration()
        self._allocate_delay()
        self.redraw(torch.ones(num_envs, dtype=torch.bool, device=self.device), self._env_ids)

    @property
    def age(self) -> torch.Tensor:
        """Age of the tensors that :meth:`delay` last returned [frames], shape (N,), int64."""
        return torch.minimum(self._lag, (self._frames - 1).clamp(min=0))

    def redraw(self, mask: torch.Tensor, keys: torch.Tensor) -> None:
        """Begin an episode: draw what is constant over it, and drop the frames of the last one.

        ``mask`` (N,), bool, are the environments that were reset; ``keys`` (N,), int64, key their draws.

        Raises:
            ValueError: A tensor's shape, dtype or device is not as expected.
        """
        self._expect("mask", mask, torch.bool, self.num_envs)
        self._expect("keys", keys, torch.int64, self.num_envs)

        unit = self._draw(keys, _PIXEL_STREAM, kernels.NUM_COLUMNS + 1)
        of_env = (unit[:, -1] * self._num_drawn).long()
        own = torch.where(self._is_perfect[of_env, None], -1, self._own)
        chosen = torch.where(own < 0, of_env[:, None], own)
        if self.corrupts:
            drawn = self._low[chosen] + unit[:, None, :-1] * self._span[chosen]
            _overwrite(self.parameters, mask, drawn)

        if self._errs_in_pose or self._errs_in_intrinsics:
            self._redraw_calibration(mask, keys, self._limits[chosen])

        if self._longest_lag > 0:
            low, high = self._lag_bounds[of_env].unbind(dim=1)
            unit = self._draw(keys, _LATENCY_STREAM, 1)[:, 0]
            _overwrite(self._lag, mask, low + (unit * (high - low + 1)).long())
            self._frames.masked_fill_(mask, 0)

    def corrupt(
        self,
        camera: int,
        depth: torch.Tensor,
        intrinsics: torch.Tensor,
        keys: torch.Tensor,
        mask: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Turn rendered depth into what a real camera would have read.

        A miss stays a miss, and so does a pixel that lateral noise moves onto one. A pixel beside the robot that reads
        the robot is the robot's, as for a self-filter that knows the robot's shape.

        Args:
            camera: Index of the camera.
            depth: Distance to the image plane [m], shape (N, H, W), float32, which is not changed; 0, infinity, NaN
                and from ``far`` on are misses.
            intrinsics: Pinhole matrices of the rendered image [px], shape (N, 3, 3), float32.
            keys: Keys of this frame's noise, shape (N,), int32.
            mask: Environments to write, shape (N,), bool; the others keep their last image. None writes all.
            labels: Semantic ids of the rendered pixels, shape (N, H, W), int32.

        Returns:
            Depth [m], shape (N, H, W), float32, 0 for a miss, and the ids of the surfaces that it was read from, (N, H,
            W), int32, or None: buffers that the camera's next call overwrites, or ``depth`` and ``labels`` themselves
            if no error of depth is configured.

        Raises:
            ValueError: A tensor's shape, dtype or device is not as expected.
        """
        if not self.corrupts:
            return depth, labels

        height, width = self._sizes[camera]
        self._expect("depth", depth, torch.float32, self.num_envs, height, width)
        self._expect("intrinsics", intrinsics, torch.float32, self.num_envs, 3, 3)
        self._expect("keys", keys, torch.int32, self.num_envs)
        if mask is not None:
            self._expect("mask", mask, torch.bool, self.num_envs)

        image, ids = self._images.get(camera, (None, None))
        if image is None:
            image = torch.zeros_like(depth)
        if labels is not None:
            self._expect("labels", labels, torch.int32, self.num_envs, height, width)
            ids = torch.zeros_like(labels) if ids is None else ids
        self._images[camera] = image, ids

        # On a GPU a warp has one row or two, so that neighbouring threads read neighbouring pixels.
        _, warp_lanes = pixel_kernels.lanes_on(str(self.device))
        env_bits = height.bit_length() - 1 if warp_lanes > 1 else 0
        wp.launch(
            kernels.corrupt_depth,
            dim=(self.num_envs << env_bits) * warp_lanes,
            inputs=[
                wp.from_torch(depth),
                wp.from_torch(intrinsics),
                wp.from_torch(keys),
                wp.from_torch(self._no_mask if mask is None else mask),
                wp.from_torch(self.parameters[:, camera], dtype=kernels.Parameters),
                self.cameras[camera],
                env_bits,
                wp.from_torch(self._no_ids if labels is None else labels),
                wp.from_torch(image),
                wp.from_torch(self._no_ids if ids is None else ids),
            ],
            device=str(self.device),
            stream=current_stream(self.device),
        )
        return image, None if labels is None else ids

    def calibrate(
        self, camera: int, intrinsics: torch.Tensor, pos: torch.Tensor, quat: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the calibration that the robot believes in: the camera's true one with this episode's error.

        Position and rotation errors are constant in the camera's frame, so a camera on the wrist keeps its own. Takes
        and returns pinhole matrices [px], (N, 3, 3), positions [m], (N, 3), and orientations (x, y, z, w), (N, 4).
        """
        if self._errs_in_pose:
            pos = pos + quat_apply(quat, self._offset[camera])
            quat = torch.nn.functional.normalize(quat_mul(quat, self._turn[camera]), dim=-1)
        if self._errs_in_intrinsics:
            intrinsics = torch.addcmul(self._intrinsics_offset[camera], intrinsics, self._intrinsics_factor[camera])
        return intrinsics, pos, quat

    def delay(self, *tensors: torch.Tensor, mask: torch.Tensor | None = None) -> tuple[torch.Tensor, ...]:
        """Return the tensors of an earlier frame, as old as the latency of each environment.

        Call it once for each frame. An environment with too few frames since its reset gets the first of them.

        Args:
            *tensors: Tensors of this frame, the same number, shapes (N, ...) and dtypes at every call.
            mask: Environments that have a new frame, shape (N,), bool; the others get their last one again. None: all.

        Returns:
            New tensors of the same shapes and dtypes; the given ones if there is no latency.

        Raises:
            ValueError: The number of tensors or a shape is not that of the first call.
        """
        if self._longest_lag == 0:
            return tensors

        # Isaac Lab's DelayBuffer moves all environments on together, but a sensor updates only those out of date.
        length = self._longest_lag + 1
        if not self._rings:
            self._rings = [
                torch.zeros(length, *tensor.shape, dtype=tensor.dtype, device=tensor.device) for tensor in tensors
            ]
        if [tensor.shape for tensor in tensors] != [ring.shape[1:] for ring in self._rings]:
            raise ValueError(
                f"delay got tensors of shapes {[tuple(tensor.shape) for tensor in tensors]}; at the first call they "
                f"were {[tuple(ring.shape[1:]) for ring in self._rings]}: give the same ones at every call."
            )

        # An environment without a frame yet must take this one: its ring still holds those of the last episode.
        new = torch.ones_like(self._frames, dtype=torch.bool) if mask is None else mask | (self._frames == 0)
        slot = self._frames % length
        self._frames += new

        last = self._frames - 1
        read = (last - torch.minimum(self._lag, last)) % length

        delayed = []
        for ring, tensor in zip(self._rings, tensors, strict=True):
            if mask is not None:
                fresh = new.view(-1, *[1] * (tensor.dim() - 1))
                tensor = torch.where(fresh, tensor, ring[slot, self._env_ids])
            ring[slot, self._env_ids] = tensor
            delayed.append(ring[read, self._env_ids])
        return tuple(delayed)

    def _read_settings(self, far: Sequence[float]) -> None:
        self.corrupts: bool = any(_corrupts(cfg) for cfg in self.cfgs)
        self.flies: bool = any(bounds(cfg.flying_pixels)[1] > 0.0 for cfg in self.cfgs)

        ranges = [[bounds(value) for value in _pixel_ranges(cfg)] for cfg in self.cfgs]
        self._low = torch.tensor([[low for low, _ in row] for row in ranges], device=self.device)
        # Not high - low in torch: infinity less infinity is NaN.
        spans = [[0.0 if low == high else high - low for low, high in row] for row in ranges]
        self._span = torch.tensor(spans, device=self.device)
        self.parameters = torch.zeros(self.num_envs, len(self._sizes), kernels.NUM_COLUMNS, device=self.device)
        """Errors of each camera in each environment, shape (N, C, columns), in the order of the kernels' columns."""

        self.cameras = self._make_cameras(far)
        """A ``kernels.Camera`` for each camera."""

        # Those of a camera at its first frame: a cloud of rays has none.
        self._images: dict[int, tuple[torch.Tensor, torch.Tensor | None]] = {}
        self._no_mask = torch.zeros(0, dtype=torch.bool, device=self.device)
        self._no_ids = torch.zeros(0, 0, 0, dtype=torch.int32, device=self.device)

    def _allocate_calibration(self) -> None:
        limits = [
            [cfg.position_jitter] * 3
            + [cfg.rotation_jitter] * 3
            + [cfg.focal_jitter]
            + [cfg.principal_point_jitter] * 2
            for cfg in self.cfgs
        ]
        self._limits = torch.tensor(limits, device=self.device)
        self._errs_in_pose = any(value > 0.0 for row in limits for value in row[:6])
        self._errs_in_intrinsics = any(value > 0.0 for row in limits for value in row[6:])

        num_cameras = len(self._sizes)
        self._offset = torch.zeros(num_cameras, self.num_envs, 3, device=self.device)
        self._turn = torch.zeros(num_cameras, self.num_envs, 4, device=self.device)
        self._intrinsics_factor = torch.ones(num_cameras, self.num_envs, 3, 3, device=self.device)
        self._intrinsics_offset = torch.zeros(num_cameras, self.num_envs, 3, 3, device=self.device)

    def _allocate_delay(self) -> None:
        ages = [(cfg.latency, cfg.latency) if isinstance(cfg.latency, int) else cfg.latency for cfg in self.cfgs]
        self._lag_bounds = torch.tensor(ages, device=self.device)
        self._longest_lag = max(longest for _, longest in ages[: self._num_drawn])
        self._lag = torch.zeros(self.num_envs, dtype=torch.long, device=self.device)
        self._frames = torch.zeros(self.num_envs, dtype=torch.long, device=self.device)
        self._rings: list[torch.Tensor] = []

    def _make_cameras(self, far: Sequence[float]) -> list[Any]:
        cameras = []
        first_pixel = 0
        for index, ((height, width), limit) in enumerate(zip(self._sizes, far, strict=True)):
            camera: Any = kernels.Camera()
            camera.index = index
            camera.height = height
            camera.width = width
            camera.far = limit
            camera.first_pixel = first_pixel
            cameras.append(camera)
            first_pixel += height * width
        return cameras

    def _redraw_calibration(self, mask: torch.Tensor, keys: torch.Tensor, limits: torch.Tensor) -> None:
        num_cameras = len(self._sizes)
        unit = self._draw(keys, _CALIBRATION_STREAM, num_cameras * _CALIBRATION_COLUMNS)
        error = (2.0 * unit - 1.0).view(self.num_envs, num_cameras, _CALIBRATION_COLUMNS) * limits
        position, rotation, focal, principal_point = error.transpose(0, 1).split([3, 3, 1, 2], dim=-1)

        turn = quat_from_angle_axis(rotation.norm(dim=-1).flatten(), rotation.reshape(-1, 3))
        factor = torch.ones_like(self._intrinsics_factor)
        factor[..., 0, 0] += focal[..., 0]
        factor[..., 1, 1] += focal[..., 0]
        offset = torch.zeros_like(self._intrinsics_offset)
        offset[..., :2, 2] = principal_point

        _overwrite(self._offset, mask, position, dim=1)
        _overwrite(self._turn, mask, turn.view(num_cameras, self.num_envs, 4), dim=1)
        _overwrite(self._intrinsics_factor, mask, factor, dim=1)
        _overwrite(self._intrinsics_offset, mask, offset, dim=1)

    def _draw(self, keys: torch.Tensor, stream: int, columns: int) -> torch.Tensor:
        # The keys already depend on seed, environment and episode.
        return keyed_uniform(0, keys, torch.zeros_like(keys), stream, columns)

    def _expect(self, name: str, tensor: torch.Tensor, dtype: torch.dtype, *shape: int) -> None:
        if tuple(tensor.shape) != shape or tensor.dtype != dtype or tensor.device != self.device:
            raise ValueError(
                f"{name} is {tuple(tensor.shape)}, {tensor.dtype} on {tensor.device}; expected {shape}, {dtype} on "
                f"{self.device}."
            )


def _corrupts(cfg: DepthRealismCfg) -> bool:
    sometimes = (cfg.flying_pixels, cfg.min_range, cfg.dropout, cfg.shadow_baseline)
    return (
        cfg.noise is not None
        or cfg.quantization > 0.0
        or any(bounds(value)[1] > 0.0 for value in sometimes)
        or bounds(cfg.max_range)[0] < math.inf
        or bounds(cfg.max_incidence)[0] < math.pi / 2
    )


def _pixel_ranges(cfg: DepthRealismCfg) -> list[Range]:
    """Return the kernel's parameters, in the order of its columns."""
    ranges: list[Range] = [0.0] * kernels.NUM_COLUMNS
    if isinstance(cfg.noise, GaussianNoiseCfg):
        ranges[kernels.MODEL] = kernels.GAUSSIAN
        ranges[kernels.NOISE] = cfg.noise.std
    elif isinstance(cfg.noise, StructuredLightNoiseCfg):
        ranges[kernels.MODEL] = kernels.STRUCTURED_LIGHT
        ranges[kernels.NOISE] = cfg.noise.scale
    elif isinstance(cfg.noise, StereoNoiseCfg):
        ranges[kernels.MODEL] = kernels.STEREO
        ranges[kernels.NOISE] = cfg.noise.disparity_std
        ranges[kernels.LATERAL] = cfg.noise.lateral_std
        ranges[kernels.BASELINE] = cfg.noise.baseline
        ranges[kernels.DISPARITY_STEP] = cfg.noise.disparity_step
    if isinstance(cfg.noise, (StructuredLightNoiseCfg, StereoNoiseCfg)):
        ranges[kernels.FOCAL_LENGTH] = cfg.noise.focal_length or 0.0

    ranges[kernels.FLYING_PIXELS] = cfg.flying_pixels
    ranges[kernels.MIN_RANGE] = cfg.min_range
    ranges[kernels.MAX_RANGE] = cfg.max_range
    ranges[kernels.DROPOUT] = cfg.dropout
    ranges[kernels.SHADOW_BASELINE] = cfg.shadow_baseline
    ranges[kernels.MAX_INCIDENCE] = cfg.max_incidence
    ranges[kernels.QUANTIZATION] = cfg.quantization
    ranges[kernels.EDGE_THRESHOLD] = cfg.edge_threshold
    return ranges


def _overwrite(kept: torch.Tensor, mask: torch.Tensor, new: torch.Tensor, dim: int = 0) -> None:
    """Overwrite ``kept`` in place where the mask, which counts along dimension ``dim``, is set."""
    shape = [1] * kept.dim()
    shape[dim] = -1
    torch.where(mask.view(shape), new, kept, out=kept)
