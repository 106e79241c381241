# SPDX-License-Identifier: BSD-3-Clause
"""Every encoder of clouds: invariance, chunks and memory."""

from collections.abc import Callable
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from benchmarks.memory_peak import MemoryPeak
from isaaclab_pc.agents import chunks
from isaaclab_pc.agents.chunks import ChunkedEncoder
from isaaclab_pc.agents.networks import DepthEncoder
from isaaclab_pc.agents.point_encoders import make_point_encoder
from isaaclab_pc.settings.points import PointEncoder

LATENT = 16


def lattice(seed: int, batch: int, count: int, features: int = 3) -> torch.Tensor:
    """Draw points with many equal coordinates, as pixels of a plane in float16 have, and with some points twice."""
    generator = torch.Generator().manual_seed(seed)
    return 0.05 * torch.randint(-3, 4, (batch, count, features), generator=generator).float()


def make(kind: str, features: int = 3, chunk: int | None = None) -> nn.Module:
    torch.manual_seed(0)
    if kind == "depth":
        net = DepthEncoder(16, 16, (4,), LATENT)
        return ChunkedEncoder(net, chunk)
    return make_point_encoder(kind, features, (8, LATENT), scale=4.0, frequencies=(1.0,), chunk=chunk)


@pytest.fixture(params=get_args(PointEncoder))
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.mark.parametrize("each", get_args(PointEncoder))
@settings(max_examples=10)
@given(st.integers(0, 2**31 - 1), st.integers(1, 40))
def test_latent_ignores_order_and_padding(each: str, seed: int, count: int) -> None:
    net = make(each, features=4)
    points = lattice(seed, 2, count, 4)
    generator = torch.Generator().manual_seed(seed + 1)
    padding = points[:, torch.randint(count, (5,), generator=generator)]
    padded = torch.cat([points, padding], dim=1)[:, torch.randperm(count + 5, generator=generator)]
    with torch.no_grad():
        torch.testing.assert_close(net(padded), net(points), rtol=1e-5, atol=1e-6)


def test_half_precision_clouds_are_taken_as_they_are(kind: str) -> None:
    net = make(kind)
    points = torch.rand(4, 20, 3).half()
    latent = net(points)
    assert latent.dtype == torch.float32
    torch.testing.assert_close(latent, net(points.float()))


@pytest.mark.parametrize("points", [torch.zeros(3, 20, 3), torch.full((3, 1, 3), 0.2)], ids=["empty", "one point"])
def test_clouds_without_shape_have_finite_latents_and_gradients(kind: str, points: torch.Tensor) -> None:
    net = make(kind)
    latent = net(points)
    latent.square().sum().backward()
    assert latent.isfinite().all()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())


@pytest.mark.parametrize("each", [*get_args(PointEncoder), "depth"])
@settings(max_examples=5)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 10), st.integers(0, 2**31 - 1))
def test_gradients_in_chunks_are_those_of_the_whole_batch(
    each: str, batch: int, chunk: int, count: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    shape = (batch, 1, 16, 16) if each == "depth" else (batch, count, 3)
    samples = torch.rand(shape, generator=generator, dtype=torch.float64)
    weights = torch.randn(batch, LATENT, generator=generator, dtype=torch.float64)
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
        if each == "depth" and dtype == torch.float64:
            continue  # it computes in float32

        def gradients(most: int | None, dtype: torch.dtype = dtype) -> list[torch.Tensor]:
            net = make(each, chunk=most).to(dtype)
            leaf = samples.to(dtype).requires_grad_()
            loss = (net(leaf) * weights.to(dtype)).sum()
            return list(torch.autograd.grad(loss, [leaf, *net.parameters()]))

        for ours, whole in zip(gradients(chunk), gradients(None), strict=True):
            scale = whole.abs().max().clamp_min(1.0)
            torch.testing.assert_close(ours / scale, whole / scale, rtol=0, atol=tolerance)


def bytes_per_sample(encode: Callable[[torch.Tensor], torch.Tensor], shape: tuple[int, ...]) -> float:
    """Return by how much the peak of a training pass grows with each further sample."""
    peaks = []
    for batch in (8, 24):
        samples = torch.rand(batch, *shape)
        with MemoryPeak() as peak:
            encode(samples).sum().backward()
        peaks.append(peak.bytes)
    return (peaks[1] - peaks[0]) / 16


@pytest.mark.parametrize("each", [*get_args(PointEncoder), "depth"])
def test_the_peak_of_activations_does_not_grow_with_the_batch(each: str) -> None:
    shape = (1, 16, 16) if each == "depth" else (8, 3)
    latent_bytes = 4 * LATENT
    # What grows are latents, their gradients, and which points they are of.
    assert bytes_per_sample(make(each, chunk=4), shape) <= 4 * latent_bytes
    assert bytes_per_sample(make(each), shape) > 6 * latent_bytes


@pytest.mark.parametrize("each", get_args(PointEncoder))
def test_without_a_chunk_a_large_batch_is_bounded_too(each: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "_MOST_ROWS", 64)
    assert bytes_per_sample(make(each), (8, 3)) <= 16 * LATENT


def test_unknown_kinds_are_refused() -> None:
    with pytest.raises(ValueError, match=r"voxels.*pointnet.*dp3"):
        make("voxels")
