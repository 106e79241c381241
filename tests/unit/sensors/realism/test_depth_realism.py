# SPDX-License-Identifier: BSD-3-Clause
"""Errors of the depth camera's pixels, each against its formula."""

import math
from collections.abc import Callable

import pytest
import torch
import warp as wp
from scipy.stats import norm

from isaaclab_pc.sensors.realism.cfg import (
    DepthRealismCfg,
    GaussianNoiseCfg,
    StereoNoiseCfg,
    StructuredLightNoiseCfg,
    stereo,
    structured_light,
)
from isaaclab_pc.sensors.realism.kernels import normal
from tests.unit.sensors.realism_helpers import FX, NO_LATERAL, corrupt, everything, make, make_keys, pinhole


def assert_normal(values: torch.Tensor, std: float) -> None:
    """Mean, standard deviation and kurtosis are those of a centred normal distribution, to five standard errors."""
    values, count = values.double().flatten(), values.numel()
    assert abs(values.mean()) < 5 * std / count**0.5
    assert abs(values.std() - std) < 5 * std / (2 * count) ** 0.5
    assert abs((values**4).mean() / (values**2).mean() ** 2 - 3.0) < 5 * (24 / count) ** 0.5


# Noise.


@wp.kernel(enable_backward=False)
def normals(
    bits: wp.array(dtype=wp.uint32),  # pyright: ignore[reportInvalidTypeForm]
    out: wp.array(dtype=wp.float32),  # pyright: ignore[reportInvalidTypeForm]
) -> None:
    i = wp.tid()
    out[i] = normal(bits[i])


def test_random_bits_become_normal_numbers() -> None:
    wp.init()
    # Every part of the range, both ends included: a number stands for the middle of 2^9 consecutive values.
    steps = torch.cat([torch.arange(0, 1 << 23, 1009), torch.arange(1 << 10), (1 << 23) - 1 - torch.arange(1 << 10)])
    bits = wp.array((steps.numpy() << 9).astype("uint32"), dtype=wp.uint32, device="cpu")
    out = wp.zeros(len(steps), dtype=wp.float32, device="cpu")
    wp.launch(normals, dim=len(steps), inputs=[bits, out], device="cpu")
    expected = torch.tensor(norm.ppf((steps.double().numpy() + 0.5) / 2**23))
    assert expected.abs().max() > 5.2
    torch.testing.assert_close(wp.to_torch(out).double(), expected, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("z", [0.3, 1.0, 4.0])
def test_gaussian_noise_is_the_same_at_every_depth(z: float) -> None:
    depth = torch.full((8, 64, 64), z)
    assert_normal(corrupt(DepthRealismCfg(noise=GaussianNoiseCfg(std=0.01)), depth) - z, 0.01)


@pytest.mark.parametrize("z", [0.4, 1.0, 2.0, 3.5])
@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_structured_light_noise_grows_with_depth_as_published(z: float, scale: float) -> None:
    depth = torch.full((8, 64, 64), z)
    noise = StructuredLightNoiseCfg(scale=scale, focal_length=NO_LATERAL)
    assert_normal(corrupt(DepthRealismCfg(noise=noise), depth) - z, scale * (0.0012 + 0.0019 * (z - 0.4) ** 2))


@pytest.mark.parametrize(
    ("degrees", "counts_as", "fx"),
    [(30.0, 30.0, 200.0), (60.0, 60.0, 200.0), (75.0, 75.0, 2000.0), (85.0, 80.0, 2000.0)],
)
@pytest.mark.parametrize("vertical", [False, True])
def test_structured_light_noise_grows_with_the_angle_as_published(
    degrees: float, counts_as: float, fx: float, vertical: bool
) -> None:
    size = 64
    column = (torch.arange(size) + 0.5 - size / 2) / fx
    row = 1.0 / (1.0 - math.tan(math.radians(degrees)) * column)
    depth = row.expand(8, size, size)
    if vertical:
        depth = depth.transpose(1, 2)
    ratio = counts_as / (90.0 - counts_as)
    sigma = 0.0012 + 0.0019 * (depth - 0.4) ** 2 + 0.0001 / depth.sqrt() * ratio**2
    noise = StructuredLightNoiseCfg(focal_length=NO_LATERAL)
    residual = (corrupt(DepthRealismCfg(noise=noise), depth, fx) - depth) / sigma
    # The nearer half of the plane, and the farther one: the angle is the same, the slope of depth in the image is not.
    for half in residual.chunk(2, dim=1 if vertical else 2):
        # The slope is that between two pixels, and of the two sides the flatter one: at most 1 % off in sigma here.
        assert abs(half.std() - 1.0) < 5 / (2 * half.numel()) ** 0.5 + 0.01


def test_a_pixel_among_misses_faces_the_camera() -> None:
    depth = torch.zeros(8, 64, 64)
    depth[:, ::2, ::2] = 2.0
    noise = StructuredLightNoiseCfg(focal_length=NO_LATERAL)
    read = corrupt(DepthRealismCfg(noise=noise), depth)
    assert_normal(read[:, ::2, ::2] - 2.0, 0.0012 + 0.0019 * 1.6**2)


@pytest.mark.parametrize(("z", "focal_length"), [(0.3, 400.0), (1.0, 400.0), (3.0, 400.0), (0.5, None)])
def test_stereo_noise_grows_with_the_square_of_depth(z: float, focal_length: float | None) -> None:
    std = 5e-5 * (focal_length or 90.0)
    noise = StereoNoiseCfg(baseline=0.06, disparity_std=std, focal_length=focal_length)
    read = corrupt(DepthRealismCfg(noise=noise), torch.full((8, 64, 64), z), fx=90.0)
    assert_normal(read - z, z**2 * 5e-5 / 0.06)


def test_stereo_reads_whole_steps_of_disparity() -> None:
    noise = StereoNoiseCfg(disparity_std=0.1, disparity_step=0.25)
    depth = torch.linspace(0.3, 3.0, 64 * 64).view(1, 64, 64)
    steps = 424.0 * 0.05 / corrupt(DepthRealismCfg(noise=noise), depth).double() / 0.25
    assert (steps - steps.round()).abs().max() < 1e-4
    assert len(steps.round().unique()) > 20


def test_noise_that_reaches_zero_disparity_is_a_miss() -> None:
    noise = StereoNoiseCfg(disparity_std=5.0)
    read = corrupt(DepthRealismCfg(noise=noise), torch.full((4, 32, 32), 10.0))
    assert (read >= 0.0).all()
    assert read.isfinite().all()
    assert 0.2 < (read == 0.0).float().mean() < 0.5
    # 0.4 px of disparity round to none, which is infinitely far.
    read = corrupt(
        DepthRealismCfg(noise=StereoNoiseCfg(disparity_std=0.0, disparity_step=1.0)), torch.full((1, 4, 4), 50.0)
    )
    assert (read == 0.0).all()


@pytest.mark.parametrize(("std", "focal_length"), [(0.8, None), (3.0, 2 * FX)])
def test_lateral_noise_moves_where_a_pixel_looks(std: float, focal_length: float | None) -> None:
    size, margin = 64, 10
    # Depth tells which pixel was read, and without noise in disparity it comes back unchanged.
    depth = (1.0 + 1e-3 * torch.arange(size * size).view(size, size)).repeat(8, 1, 1)
    noise = StereoNoiseCfg(disparity_std=0.0, lateral_std=std, focal_length=focal_length)
    realism = make(DepthRealismCfg(noise=noise), 8, size)
    read, _ = realism.corrupt(0, depth, pinhole(8, size, FX, 1.5 * FX), make_keys(8))
    read = ((read - 1.0) * 1e3).round().long()
    inner = slice(margin, size - margin)
    down = (read // size - torch.arange(size)[:, None])[:, inner, inner].double()
    across = (read % size - torch.arange(size))[:, inner, inner].double()
    for moved, focal in ((down, 1.5 * FX), (across, FX)):
        pixels = std * focal / (focal_length or FX)
        # Rounding to whole pixels adds the variance of a uniform number.
        variance = pixels**2 + 1 / 12
        assert abs(moved.mean()) < 5 * (variance / moved.numel()) ** 0.5
        assert abs(moved.var() - variance) < 5 * variance * (2 / moved.numel()) ** 0.5
    correlation = torch.corrcoef(torch.stack([down.flatten(), across.flatten()]))[0, 1]
    assert abs(correlation) < 5 / down.numel() ** 0.5


def test_lateral_noise_of_structured_light_blurs_edges_as_published() -> None:
    depth = torch.ones(1024, 64, 8)
    depth[:, :, 4:] = 2.0
    read = corrupt(DepthRealismCfg(noise=StructuredLightNoiseCfg(focal_length=None)), depth)
    for distance in range(3):
        # The edge is no slope: both sides face the camera, so theta is 0.
        share = torch.stack([read[:, :, 3 - distance] > 1.5, read[:, :, 4 + distance] < 1.5]).float().mean()
        expected = 0.5 * math.erfc((distance + 0.5) / 0.8 / 2**0.5)
        assert abs(share - expected) < 5 * (expected * (1 - expected) / (2 * 1024 * 64)) ** 0.5


def test_lateral_noise_of_structured_light_grows_with_the_angle_as_published() -> None:
    # So steep that every pixel counts as 80 degrees. The depth read tells how far off the pixel looked.
    z = 1.0 + 0.1 * torch.arange(32.0)
    depth = z.expand(256, 64, 32)
    read = corrupt(DepthRealismCfg(noise=StructuredLightNoiseCfg(focal_length=None)), depth, fx=2000.0)
    moved = ((read - depth) / 0.1)[:, :, 6:12]
    axial = (0.0012 + 0.0019 * (z - 0.4) ** 2 + 0.0001 / z.sqrt() * 64)[6:12]
    expected = (0.8 + 0.035 * 8) ** 2 + 1 / 12 + (axial / 0.1).square().mean()
    # 2 %: axial noise is that of the pixel looked at.
    assert abs(moved.var() / expected - 1.0) < 5 * (2 / moved.numel()) ** 0.5 + 0.02


def test_lateral_noise_onto_a_miss_is_a_miss_and_a_miss_stays_one() -> None:
    depth = torch.ones(4, 32, 32)
    depth[:, :, 16:] = 0.0
    noise = StereoNoiseCfg(disparity_std=0.0, lateral_std=2.0, focal_length=None)
    read = corrupt(DepthRealismCfg(noise=noise), depth)
    assert (read[:, :, 16:] == 0.0).all()
    assert 0.3 < (read[:, :, 15] == 0.0).float().mean() < 0.5


# Single pixels.


def test_dropout_rate() -> None:
    read = corrupt(DepthRealismCfg(dropout=0.1), torch.ones(16, 64, 64))
    assert set(read.unique().tolist()) == {0.0, 1.0}
    assert abs((read == 0.0).float().mean() - 0.1) < 5 * (0.1 * 0.9 / read.numel()) ** 0.5


def test_flying_pixels_lie_between_the_two_surfaces_and_only_at_edges() -> None:
    depth = torch.full((8, 64, 64), 2.0)
    depth[:, 16:48, 16:48] = 1.0
    read = corrupt(DepthRealismCfg(flying_pixels=0.4, edge_threshold=0.1), depth)
    steps = torch.nn.functional.pad(depth, (1, 1, 1, 1), mode="replicate")
    neighbours = torch.stack([steps[:, 1:-1, :-2], steps[:, 1:-1, 2:], steps[:, :-2, 1:-1], steps[:, 2:, 1:-1]])
    edge = (neighbours != depth).any(0)
    assert torch.equal(read[~edge], depth[~edge])
    flew = read[edge] != depth[edge]
    assert abs(flew.float().mean() - 0.4) < 5 * (0.4 * 0.6 / flew.numel()) ** 0.5
    between = read[edge][flew]
    assert ((between > 1.0) & (between < 2.0)).all()
    # Uniform between them, from either side.
    assert abs(between.mean() - 1.5) < 5 * (1 / 12 / between.numel()) ** 0.5


def test_steps_below_the_threshold_and_misses_make_no_edge() -> None:
    depth = torch.linspace(1.0, 3.0, 64).expand(2, 64, 64).clone()
    depth[:, ::7] = 0.0
    depth[:, ::5, ::5] = math.inf
    read = corrupt(DepthRealismCfg(flying_pixels=1.0, edge_threshold=0.05), depth)
    assert torch.equal(read, torch.where(depth.isfinite(), depth, 0.0))


def test_quantized_depth_is_a_multiple_of_the_step() -> None:
    cfg = DepthRealismCfg(noise=GaussianNoiseCfg(std=0.1), quantization=0.01)
    depth = torch.rand(4, 32, 32, generator=torch.Generator().manual_seed(0)) + 0.5
    read = corrupt(cfg, depth)
    steps = read.double() / 0.01
    assert (steps - steps.round()).abs().max() < 1e-4
    plain = corrupt(DepthRealismCfg(noise=GaussianNoiseCfg(std=0.1)), depth)
    assert (read - plain).abs().max() < 0.005 + 1e-6


def test_depth_out_of_range_is_a_miss_after_noise() -> None:
    depth = torch.linspace(0.1, 3.0, 64 * 64).view(1, 64, 64)
    read = corrupt(DepthRealismCfg(min_range=0.5, max_range=2.0), depth)
    assert torch.equal(read, torch.where((depth >= 0.5) & (depth <= 2.0), depth, 0.0))
    noisy = corrupt(DepthRealismCfg(noise=GaussianNoiseCfg(std=0.2), min_range=0.5, max_range=2.0), depth)
    valid = noisy[noisy != 0.0]
    assert valid.min() >= 0.5
    assert valid.max() <= 2.0
    assert (noisy[depth < 0.5] != 0.0).any()


def test_a_pixel_has_the_label_of_what_it_reads() -> None:
    size = 32
    # Depth tells which pixel was read, and without noise in disparity it comes back unchanged.
    depth = (1.0 + 1e-3 * torch.arange(size * size).view(size, size)).repeat(4, 1, 1)
    labels = torch.arange(size * size, dtype=torch.int32).view(size, size).repeat(4, 1, 1)
    noise = StereoNoiseCfg(disparity_std=0.0, lateral_std=1.0, focal_length=None)
    realism = make(DepthRealismCfg(noise=noise, dropout=0.2), 4, size)
    read, ids = realism.corrupt(0, depth, pinhole(4, size), make_keys(4), labels=labels)
    assert ids is not None
    hit = read > 0.0
    assert torch.equal(((read - 1.0) * 1e3).round().int()[hit], ids[hit])
    assert (ids != labels)[hit].float().mean() > 0.5
    # Without labels, and without errors.
    assert realism.corrupt(0, depth, pinhole(4, size), make_keys(4))[1] is None
    assert (
        make(DepthRealismCfg(), 4, size).corrupt(0, depth, pinhole(4, size), make_keys(4), labels=labels)[1] is labels
    )


@pytest.mark.parametrize("miss", [0.0, -1.0, math.inf, math.nan, 5.0, 7.0])
def test_misses_stay_misses(miss: float) -> None:
    depth = torch.full((2, 16, 16), miss)
    depth[:, ::2] = 1.0
    cfg = DepthRealismCfg(noise=GaussianNoiseCfg(std=0.3), flying_pixels=1.0)
    read, _ = make(cfg, 2, 16, far=[5.0]).corrupt(0, depth, pinhole(2, 16), make_keys(2))
    assert (read[:, 1::2] == 0.0).all()
    # Nothing flies towards a miss either: 2 m are more than three standard deviations.
    assert (read[:, ::2] < 1.0 + 6 * 0.3).all()
    assert (read[:, ::2] != 0.0).float().mean() > 0.99


def test_the_input_is_not_changed_and_need_not_be_contiguous() -> None:
    depth = torch.rand(3, 20, 12, generator=torch.Generator().manual_seed(0)) + 0.5
    kept = depth.clone()
    read = corrupt(everything(), depth).clone()
    assert torch.equal(depth, kept)
    assert torch.equal(read, corrupt(everything(), depth.transpose(1, 2).contiguous().transpose(1, 2)))
    assert torch.equal(read, corrupt(everything(), torch.stack([depth, depth], -1)[..., 0]))


def test_only_the_masked_environments_are_written() -> None:
    depth, keys = torch.ones(4, 8, 8), make_keys(4)
    realism = make(DepthRealismCfg(noise=GaussianNoiseCfg()), 4, 8)
    first = realism.corrupt(0, depth, pinhole(4, 8), keys)[0].clone()
    mask = torch.tensor([True, False, True, False])
    second, _ = realism.corrupt(0, depth, pinhole(4, 8), keys + 1, mask)
    assert torch.equal(second[~mask], first[~mask])
    assert (second[mask] != first[mask]).float().mean() > 0.9


@pytest.mark.parametrize("preset", [structured_light, stereo])
def test_presets_give_plausible_images(preset: Callable[[], DepthRealismCfg]) -> None:
    cfg = preset()
    cfg.check()
    depth = torch.ones(16, 64, 64)
    depth[:, 20:40, 20:40] = 0.6
    read = corrupt(cfg, depth)
    assert read.isfinite().all()
    hit = read > 0.0
    assert hit.float().mean() > 0.97
    flat = hit[:, :15] & (depth[:, :15] == 1.0)
    error = (read - depth)[:, :15][flat]
    # A few millimetres at 1 m, as both cameras' makers and testers report.
    assert 0.001 < error.std() < 0.006
    assert abs(error.mean()) < 0.001
