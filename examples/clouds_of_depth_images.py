# SPDX-License-Identifier: BSD-3-Clause
"""Point clouds of depth images from a real camera, with the operator that the simulated tasks use.

    python examples/clouds_of_depth_images.py recording/ --intrinsics 615.2 615.3 320.6 241.4

Needs torch, Warp, NumPy, lazy_loader and Pillow: no Isaac Lab and no simulator. A folder of 16-bit PNG images, as
RealSense, Kinect and most datasets have them, becomes one file of clouds, in the camera's optical frame (x right, y
down, z forward): what a policy sees when the sensor's settings are the same. The images are without distortion;
DepthToCloud takes others, too, with its argument centers.

Exit codes: 0; 2 where an argument or an image is not what it has to be.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.sensors import DepthToCloud

PIXEL_CENTER = 0.5
"""Calibrations of OpenCV and ROS count from the middle of the first pixel, the operator from its corner [px]."""


def main() -> None:
    """Read a folder, make one cloud of each image, and write them all."""
    given = _arguments()
    try:
        _check(given)
        _make_clouds(given)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from error


def _make_clouds(given: argparse.Namespace) -> None:
    files = sorted(given.folder.glob("*.png"))
    if not files:
        raise ConfigError(f"{given.folder}: no *.png there; give the folder of the depth images.")
    depth = _read(files, given.depth_scale)
    count, height, width = depth.shape

    operator = DepthToCloud(
        count,
        [(height, width)],
        given.num_points,
        sampler=given.sampler,
        crop_lower=given.crop_lower,
        crop_upper=given.crop_upper,
        dtype="float32",
    )
    fx, fy, cx, cy = given.intrinsics
    matrix = torch.tensor([[fx, 0.0, cx + PIXEL_CENTER], [0.0, fy, cy + PIXEL_CENTER], [0.0, 0.0, 1.0]])
    cloud = operator(
        depth[:, None],
        matrix.expand(count, 1, 3, 3),
        camera_pos=torch.zeros(count, 1, 3),
        camera_quat=torch.tensor([0.0, 0.0, 0.0, 1.0]).expand(count, 1, 4),
        keys=torch.arange(count, dtype=torch.int32),
    )
    if not cloud.count.any():
        raise ConfigError(
            f"{given.folder}: no image has a point between --crop-lower and --crop-upper; depths go up to "
            f"{depth.max():.3g} m: check --depth-scale, --intrinsics and the crop."
        )

    try:
        # An open file, whose name NumPy leaves as it is.
        with given.out.open("wb") as out:
            np.savez(out, points=cloud.points.numpy(), count=cloud.count.numpy(), files=[file.name for file in files])
    except OSError as error:
        raise ConfigError(f"--out {given.out}: cannot be written: {error.strerror or error}") from error
    for file, points, distinct in zip(files, cloud.points, cloud.count.tolist(), strict=True):
        nearest = points[:distinct, 2].min().item() if distinct else float("nan")
        print(f"{file.name}: {distinct} points, the nearest {nearest:.3f} m away")
    print(f"{given.out}: points {tuple(cloud.points.shape)} [m], count {tuple(cloud.count.shape)}")


def _check(given: argparse.Namespace) -> None:
    """Refuse arguments that no camera has; the operator checks its own."""
    if not given.folder.is_dir():
        raise ConfigError(f"{given.folder}: no such folder; give that of the depth images.")
    fx, fy, *center = given.intrinsics
    if not (0.0 < fx < math.inf and 0.0 < fy < math.inf and all(map(math.isfinite, center))):
        raise ConfigError(
            f"--intrinsics {' '.join(map(str, given.intrinsics))}: expected numbers, and focal lengths above 0 [px]."
        )
    if not 0.0 < given.depth_scale < math.inf:
        raise ConfigError(f"--depth-scale {given.depth_scale}: expected a number above 0, such as 0.001 for mm.")


def _read(files: list[Path], scale: float) -> torch.Tensor:
    """Return the depths of images of one size [m], shape (F, H, W); pixels without depth read 0, and give no point."""
    images: list[np.ndarray] = []
    for file in files:
        try:
            image = np.asarray(Image.open(file))
        # Pillow's errors have no class in common.
        except Exception as error:
            raise ConfigError(f"{file}: cannot be read as an image: {' '.join(str(error).split())}") from error
        if image.ndim != 2 or image.dtype.kind not in "iu" or image.dtype.itemsize < 2:
            raise ConfigError(f"{file}: {image.dtype} of shape {image.shape}; a depth image is one 16-bit channel.")
        if images and image.shape != images[0].shape:
            sizes = (f"{width} x {height}" for height, width in (image.shape, images[0].shape))
            raise ConfigError(f"{file}: {' pixels, and the first image is '.join(sizes)}: give images of one size.")
        images.append(image)
    return torch.from_numpy(np.stack(images).astype(np.float32) * np.float32(scale))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of 16-bit PNG images, all of one size")
    parser.add_argument(
        "--intrinsics",
        type=float,
        nargs=4,
        required=True,
        metavar=("FX", "FY", "CX", "CY"),
        help="focal lengths and principal point as OpenCV and ROS have them [px]",
    )
    parser.add_argument("--depth-scale", type=float, default=0.001, help="metres of one count (default: 0.001)")
    parser.add_argument("--num-points", type=int, default=512, help="points of each cloud (default: 512)")
    parser.add_argument("--sampler", default="fps", help="random, grid, voxel or fps (default: fps)")
    parser.add_argument(
        "--crop-lower", type=float, nargs=3, default=(-2.0, -2.0, 0.1), metavar=("X", "Y", "Z"), help="[m]"
    )
    parser.add_argument(
        "--crop-upper", type=float, nargs=3, default=(2.0, 2.0, 2.0), metavar=("X", "Y", "Z"), help="[m]"
    )
    parser.add_argument("--out", type=Path, default=Path("clouds.npz"), help="(default: clouds.npz)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
