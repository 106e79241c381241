# SPDX-License-Identifier: BSD-3-Clause
"""The CUDA backend takes the same pixels as the CPU's; here it runs on Warp's CPU device as well."""

from typing import Any

import pytest
import torch

from isaaclab_pc.sensors import Cloud, DepthToCloud
from isaaclab_pc.sensors.depth_to_cloud import SAMPLERS

NUM_ENVS = 5


def run(backend: Any, device: str, sampler: Any, sizes: list[tuple[int, int]], num_points: int) -> Cloud:
    generator = torch.Generator().manual_seed(0)
    cameras = len(sizes)
    depths, labels = [], []
    for height, width in sizes:
        depth = 0.6 + 0.8 * torch.rand(NUM_ENVS, height, width, generator=generator)
        depth[torch.rand(depth.shape, generator=generator) < 0.2] = 0.0
        depths.append(depth.to(device))
        labels.append(torch.randint(0, 4, depth.shape, generator=generator).int().to(device))
    intrinsics = torch.stack([torch.tensor([[40.0, 0, w / 2], [0, 35, h / 2], [0, 0, 1]]) for h, w in sizes])
    pos = (torch.rand(NUM_ENVS, cameras, 3, generator=generator) - 0.5).to(device)
    quat = torch.nn.functional.normalize(torch.randn(NUM_ENVS, cameras, 4, generator=generator), dim=-1).to(device)
    operator = DepthToCloud(
        NUM_ENVS,
        sizes,
        num_points,
        sampler=sampler,
        crop_lower=(-1.0, -1.0, -1.0),
        crop_upper=(1.0, 1.0, 1.2),
        voxel_size=0.1,
        backend=backend,
        dtype="float32",
        device=device,
    )
    return operator(
        depths,
        intrinsics.expand(NUM_ENVS, -1, -1, -1).contiguous().to(device),
        pos,
        quat,
        (torch.arange(NUM_ENVS, dtype=torch.int32) * 77).to(device),
        labels=labels,
        removed=torch.tensor([False, True, False, False], device=device),
        output_pos=pos[:, 0],
        output_quat=quat[:, 0],
    )


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize(
    ("sizes", "num_points"), [([(24, 32)], 100), ([(24, 32), (17, 13)], 16), ([(7, 5)], 35), ([(1, 1)], 1)]
)
def test_warp_and_numba_take_the_same_pixels(sampler: str, sizes: list[tuple[int, int]], num_points: int) -> None:
    numba, warp = (run(backend, "cpu", sampler, sizes, num_points) for backend in ("numba", "warp"))
    assert torch.equal(numba.count, warp.count)
    assert torch.equal(numba.pixels, warp.pixels)
    torch.testing.assert_close(numba.points, warp.points, atol=1e-6, rtol=0)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_cuda_gives_the_cpus_cloud(sampler: str) -> None:
    cpu, cuda = (run(None, device, sampler, [(24, 32), (17, 13)], 64) for device in ("cpu", "cuda"))
    # Fused multiply-adds may move a pixel across the crop's border or turn a near tie: most must agree.
    assert (cpu.pixels == cuda.pixels.cpu()).float().mean() > 0.9
