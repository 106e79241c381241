# SPDX-License-Identifier: BSD-3-Clause
"""The example without a simulator makes the same clouds from a sensor's recorded inputs."""

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from isaaclab_pc.sensors.camera_matrices import ray_matrices
from isaaclab_pc.sensors.depth_to_cloud import DepthToCloud
from isaaclab_pc.sensors.features import estimate_normals
from isaaclab_pc.viewer.cloud_recorder import CloudRecorder
from tests.unit.sensors.sampler_helpers import lens_tables

pytest.importorskip("onnxruntime")

SIZES = {"camera": (24, 32), "wrist_camera": (17, 13)}
NUM_ENVS, NUM_POINTS, FRAMES = 3, 90, 4
NEAR, FAR = 0.65, 1.45
CROP: Any = {"crop_lower": (-1.0, -1.0, -1.0), "crop_upper": (1.0, 1.0, 1.4)}
INTRINSICS = torch.tensor([[20.0, 0.0, 10.0], [0.0, 20.0, 8.0], [0.0, 0.0, 1.0]]).repeat(NUM_ENVS, 2, 1, 1)


def views(generator: torch.Generator) -> tuple[list[torch.Tensor], list[torch.Tensor], torch.Tensor, torch.Tensor]:
    """Return rough surfaces with holes, semantic ids of which some are not in the table, and poses."""
    depths = [0.5 + torch.rand(NUM_ENVS, *size, generator=generator) for size in SIZES.values()]
    for depth in depths:
        depth[depth < 0.6] = 0.0
    labels = [torch.randint(-1, 5, (NUM_ENVS, *size), generator=generator).int() for size in SIZES.values()]
    pos = 0.1 * torch.randn(NUM_ENVS, 2, 3, generator=generator)
    return depths, labels, pos, torch.randn(NUM_ENVS, 2, 4, generator=generator)


@pytest.mark.parametrize("age", [0, 1])
@pytest.mark.parametrize("centers", [None, lens_tables(list(SIZES.values()))], ids=["pinholes", "lenses"])
def test_the_example_makes_the_sensors_clouds_of_the_recording(age: int, centers: Any) -> None:
    example = runpy.run_path(str(Path(__file__).parents[3] / "examples" / "exported_policy.py"))
    operator = DepthToCloud(NUM_ENVS, list(SIZES.values()), NUM_POINTS, near=NEAR, far=FAR, dtype="float32", **CROP)
    sensor: Any = SimpleNamespace(operator=operator, cfg=SimpleNamespace(cameras=tuple(SIZES)))
    recorder = CloudRecorder(sensor)

    generator = torch.Generator().manual_seed(0)
    origins = torch.randn(NUM_ENVS, 3, generator=generator)
    removed = torch.tensor([[False, True, False, True], [True, False, False, False]])
    clouds, frames = [], []
    for frame in range(FRAMES):
        depths, labels, pos, quat = views(generator)
        pos += origins[:, None]
        gripper = (origins + 0.2, torch.randn(NUM_ENVS, 4, generator=generator))
        keys = torch.randint(0, 2**31, (NUM_ENVS,), generator=generator).int()
        options = {"frame_pos": origins, "frame_quat": None, "output_pos": gripper[0], "output_quat": gripper[1]}
        options |= {"labels": labels, "removed": removed, "mask": None, "centers": centers}
        cloud = sensor.operator(depths, INTRINSICS, pos, quat, keys, **options)
        # As the sensor has it: of the images with everything in them.
        rays = ray_matrices(INTRINSICS, pos, quat, *gripper)
        normals = estimate_normals(depths, rays, cloud.pixels, [FAR] * len(SIZES), centers)
        clouds.append(torch.cat([cloud.points, normals], dim=-1)[0].half().float().numpy())
        sensor.age = torch.full((NUM_ENVS,), min(age, frame))
        frames.append(recorder.frame)

    settings = {"cameras": list(SIZES), "num_points": NUM_POINTS, "appended_points": 0, "sampler": "random", **CROP}
    settings |= {"channels": {"xyz": [0, 3], "normals": [3, 6]}, "frame": "gripper", "crop_frame": "env"}
    settings |= {"voxel_size": 0.01, "rounded_to": "float16"}
    cameras = {
        name: {"height": height, "width": width, "near": NEAR, "miss_from": FAR}
        for name, (height, width) in SIZES.items()
    }
    recording = {name: np.stack([frame[name] for frame in frames]) for name in frames[0]}
    # Without a network, which makes no clouds.
    policy = object.__new__(example["ExportedPolicy"])
    policy.description, policy._cloud, policy._operator = {"cameras": cameras}, settings, None
    made, _ = policy.clouds(recording)
    np.testing.assert_array_equal(made, [clouds[max(0, frame - age)] for frame in range(FRAMES)])
