# SPDX-License-Identifier: BSD-3-Clause
"""A depth image gets the same errors whatever the number of threads that share it."""

import pytest
import torch
import warp as wp

from isaaclab_pc.sensors.realism import kernels
from isaaclab_pc.sensors.realism.cfg import DepthRealismCfg, StructuredLightNoiseCfg
from isaaclab_pc.sensors.realism.depth_realism import DepthRealism

HEIGHT, WIDTH = 13, 21


@pytest.mark.parametrize("env_bits", [1, 2, 3, 4, 7])
def test_any_number_of_threads_makes_the_same_image(env_bits: int) -> None:
    num_envs = 5
    depth = 0.5 + torch.rand(num_envs, HEIGHT, WIDTH, generator=torch.Generator().manual_seed(0))
    intrinsics = torch.tensor([[20.0, 0, 10], [0, 20, 6], [0, 0, 1]]).repeat(num_envs, 1, 1)
    keys = torch.arange(num_envs, dtype=torch.int32)
    mask = torch.tensor([True, True, False, True, True])
    realism = DepthRealism(DepthRealismCfg(noise=StructuredLightNoiseCfg()), [(HEIGHT, WIDTH)], num_envs, "cpu")
    realism.redraw(mask, keys.long())
    labels = torch.arange(HEIGHT * WIDTH, dtype=torch.int32).view(HEIGHT, WIDTH).repeat(num_envs, 1, 1)
    expected, expected_ids = realism.corrupt(0, depth, intrinsics, keys, mask, labels)

    image = torch.zeros_like(depth)
    ids = torch.zeros_like(labels)
    wp.launch(
        kernels.corrupt_depth,
        dim=num_envs << env_bits,
        inputs=[
            *(wp.from_torch(tensor) for tensor in (depth, intrinsics, keys, mask)),
            wp.from_torch(realism.parameters[:, 0], dtype=kernels.Parameters),
            realism.cameras[0],
            env_bits,
            *(wp.from_torch(tensor) for tensor in (labels, image, ids)),
        ],
        device="cpu",
    )
    assert torch.equal(image, expected)
    assert expected_ids is not None
    assert torch.equal(ids, expected_ids)
    assert (image[mask] != depth[mask]).float().mean() > 0.5
    assert (image[~mask] == 0).all()
