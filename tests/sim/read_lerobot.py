# SPDX-License-Identifier: BSD-3-Clause
# /// script
# requires-python = ">=3.12"
# dependencies = ["lerobot[dataset]>=0.6,<0.7", "h5py>=3", "scipy>=1.11"]
# ///
"""Read a LeRobot dataset by lerobot's own library; print what a test asks as JSON."""

import json
import sys

import numpy as np
from lerobot.datasets import LeRobotDataset  # pyright: ignore[reportMissingImports]


def distance_to_depth(frame: dict) -> list[float]:
    """Return how far each distinct point is from the depth map at its pixel, or at the next one [m]."""
    depth = np.pad(frame["observation.images.camera"].squeeze().numpy() / 1000, 1)
    intrinsics = frame["observation.camera.intrinsics"].numpy()
    extrinsics = frame["observation.camera.extrinsics"].numpy()
    points = frame["observation.pointcloud.xyz"].numpy()[frame["observation.pointcloud.mask"].numpy() > 0]

    in_camera = (points - extrinsics[:3, 3]) @ extrinsics[:3, :3]
    pixels = in_camera[:, :2] / in_camera[:, 2:] @ intrinsics[:2, :2].T + intrinsics[:2, 2]
    columns, rows = np.floor(pixels).astype(int).T
    # A point at an object's rim, rounded to float16, may lie in the pixel beside it.
    beside = [depth[rows + row, columns + column] for row in range(3) for column in range(3)]
    return np.abs(np.stack(beside) - in_camera[:, 2]).min(axis=0).tolist()


dataset = LeRobotDataset("isaaclab_pc/lift", root=sys.argv[1])
frames = [dataset[index] for index in range(0, len(dataset), 10)]
print(
    json.dumps(
        {
            "fps": dataset.fps,
            "episodes": dataset.meta.total_episodes,
            "robot": dataset.meta.robot_type,
            "task": frames[0]["task"],
            "state": dataset.meta.features["observation.state"]["names"],
            "distances": [distance for frame in frames for distance in distance_to_depth(frame)],
            "actions": [dataset[index]["action"].tolist() for index in range(len(dataset))],
            "successes": sum(bool(dataset[index]["next.success"]) for index in range(len(dataset))),
        }
    )
)
