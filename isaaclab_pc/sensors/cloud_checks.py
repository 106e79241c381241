# SPDX-License-Identifier: BSD-3-Clause
"""Which clouds can be made: names of the samplers, and checks of an operator's settings."""

import math
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from isaaclab_pc.errors import ConfigError

Sampler = Literal["random", "grid", "voxel", "fps"]
SAMPLERS: tuple[Sampler, ...] = get_args(Sampler)


def check_cloud(
    image_sizes: Sequence[tuple[int, int]],
    num_points: int,
    sampler: str,
    crop_lower: Sequence[float],
    crop_upper: Sequence[float],
    voxel_size: float,
) -> None:
    """Raise ConfigError, naming the value and its limits, for settings of a cloud that no operator can make.

    Arguments are those of :class:`DepthToCloud`.
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
) -> None:
    """Refuse buffers and depth limits that no operator can have; arguments and errors as for :class:`DepthToCloud`."""
    if num_envs < 1:
        raise ConfigError(f"num_envs={num_envs} must be at least 1.")
    if dtype not in ("float16", "float32"):
        raise ConfigError(f"dtype={dtype!r} is unknown: use float16 or float32.")

    for name, value in {"near": near, "far": far}.items():
        if np.shape(value) not in ((), (num_cameras,)):
            raise ConfigError(f"{name}={value} must be one depth [m], or one for each of the {num_cameras} cameras.")
    if not ((np.asarray(near) >= 0) & (np.asarray(near) < np.asarray(far))).all():
        raise ConfigError(f"near={near} m must be at least 0 and below far={far} m.")
