# SPDX-License-Identifier: BSD-3-Clause
"""Point clouds of depth images from a real camera, with the operator that the simulated tasks use.

    python examples/clouds_of_depth_images.py recording/ --intrinsics 615.2 615.3 320.6 241.4

Needs torch, Warp, NumPy, lazy_loader, Pillow and, on the CPU, numba: no Isaac Lab and no simulator. A folder of 16-bit
PNG images, as RealSense, Kinect and most datasets have them, becomes one file of clouds, in the camera's optical frame
(x right, y down, z forward): what a policy sees when the sensor's settings are the same.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from isaaclab_pc.sensors import DepthToCloud

PIXEL_CENTER = 0.5
"""Calibrations of OpenCV and ROS count from the middle of the first pixel, the operator from its corner [px]."""


def main() -> None:
    """Read a folder, make one cloud of each image, and write them all."""
    given = _arguments()
    files = sorted(given.folder.glob("*.png"))
    if not files:
        raise SystemExit(f"{given.folder}: no *.png there; give the folder of the depth images.")
    depth = torch.stack([_depth(file, given.depth_scale) for file in files])
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

    np.savez(given.out, points=cloud.points.numpy(), count=cloud.count.numpy(), files=[file.name for file in files])
    for file, points, distinct in zip(files, cloud.points, cloud.count.tolist(), strict=True):
        nearest = points[:distinct, 2].min().item() if distinct else float("nan")
        print(f"{file.name}: {distinct} points, the nearest {nearest:.3f} m away")
    print(f"{given.out}: points {tuple(cloud.points.shape)} [m], count {tuple(cloud.count.shape)}")


def _depth(file: Path, scale: float) -> torch.Tensor:
    """Return an image's depths [m], shape (H, W); pixels without depth read 0, which gives no point."""
    image = np.asarray(Image.open(file))
    if image.ndim != 2 or image.dtype == np.uint8:
        raise SystemExit(f"{file}: {image.dtype} of shape {image.shape}; a depth image is one 16-bit channel.")
    return torch.from_numpy(image.astype(np.float32) * scale)


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
