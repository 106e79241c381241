# SPDX-License-Identifier: BSD-3-Clause
"""Normals and a camera's errors with 256 threads in a block: the kernels' PTX, run in an interpreter.

Unlike those of the clouds, these kernels may fuse a product and a sum, and then differ from the CPU in the last bits.
"""

import pytest
import torch

from isaaclab_pc.sensors.features import estimate_normals
from isaaclab_pc.sensors.realism.cfg import (
    DepthRealismCfg,
    GaussianNoiseCfg,
    StereoNoiseCfg,
    StructuredLightNoiseCfg,
)
from tests.ptx.launches import interpreted
from tests.unit.sensors.realism_helpers import make, make_keys, pinhole
from tests.unit.sensors.sampler_helpers import scene

SIZES = [(17, 13), (24, 32)]
NOISES = {
    "none": None,
    "gaussian": GaussianNoiseCfg(),
    "stereo": StereoNoiseCfg(focal_length=None),
    "structured light": StructuredLightNoiseCfg(),
}


def test_normals() -> None:
    depths, _, _, matrices, *_ = scene(5, SIZES)
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(sum(h * w for h, w in SIZES), (5, 77), generator=generator, dtype=torch.int32)
    expected = estimate_normals(depths, matrices, pixels)
    with interpreted() as interpreter:
        normals = estimate_normals(depths, matrices, pixels)
    assert interpreter.launched == ["write_normals"] * 2
    torch.testing.assert_close(normals, expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("masked", [False, True])
def test_errors_of_a_camera(noise: str, masked: bool) -> None:
    cfg = DepthRealismCfg(noise=NOISES[noise], flying_pixels=(0.1, 0.5), quantization=0.002, dropout=(0.0, 0.2))  # pyright: ignore
    num_envs, height, width = 5, 37, 50
    [depth], *_ = scene(num_envs, [(height, width)])
    mask = torch.tensor([True, False, True, True, False]) if masked else None

    def corrupted() -> torch.Tensor:
        realism = make(cfg, num_envs, height, width)
        realism.redraw(torch.ones(num_envs, dtype=torch.bool), make_keys(num_envs).long())
        return realism.corrupt(0, depth, pinhole(num_envs, width), make_keys(num_envs), mask)[0]

    expected = corrupted()
    with interpreted() as interpreter:
        image = corrupted()
    assert interpreter.launched.count("corrupt_depth") == 1
    # Where rounding decides, a few pixels get the next step or the neighbour's depth.
    differs = (image - expected).abs() > 1e-5
    assert differs.float().mean() < 2e-3
    assert (expected != depth.nan_to_num()).float().mean() > 0.05
