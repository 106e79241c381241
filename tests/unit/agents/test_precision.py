# SPDX-License-Identifier: BSD-3-Clause
"""Encoders in bfloat16."""

from dataclasses import replace
from typing import Any, get_args

import pytest
import torch
from torch import Tensor

from benchmarks.memory_peak import MemoryPeak
from isaaclab_pc.agents import ppo
from isaaclab_pc.agents.networks import ObservationEncoder
from isaaclab_pc.settings.points import PointEncoder

SHAPES = {"points": (64, 3), "few points": (16, 3), "depth": (1, 48, 64)}
ENCODERS = [(group, kind) for group in ("points", "few points") for kind in get_args(PointEncoder)]
ENCODERS.append(("depth", "pointnet"))
BATCH = 32
# Rounded values let other points attain some of the maxima, which moves their gradient.
TOLERANCE = 0.1


def make(group: str, kind: str = "pointnet", **settings: Any) -> ObservationEncoder:
    torch.manual_seed(0)
    encoder = replace(ppo.EncoderSettings(point_encoder=kind, point_channels=(32, 64)), **settings)
    return ObservationEncoder({group: SHAPES[group]}, encoder)


def observe(group: str) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return {group: (0.4 * torch.rand(BATCH, *SHAPES[group], generator=generator)).half()}


def learn(encoder: ObservationEncoder, obs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Return the latents and the gradient of all parameters."""
    [latent] = encoder(obs)
    weights = torch.randn(latent.shape, generator=torch.Generator().manual_seed(2))
    (latent * weights).sum().backward()
    parameters = [parameter.grad for parameter in encoder.parameters()]
    return latent.detach(), torch.cat([grad.flatten() for grad in parameters if grad is not None])


def relative_error(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


@pytest.mark.parametrize("chunk", ["auto", 5])
@pytest.mark.parametrize(("group", "kind"), ENCODERS)
def test_latents_and_gradients_are_near_those_of_float32(group: str, kind: str, chunk: Any) -> None:
    obs = observe(group)
    expected_latent, expected = learn(make(group, kind), obs)
    latent, gradient = learn(make(group, kind, chunk=chunk, precision="bf16"), obs)

    assert latent.dtype == gradient.dtype == torch.float32
    assert not torch.equal(latent, expected_latent)
    assert relative_error(latent, expected_latent) < 0.01
    assert gradient.shape == expected.shape
    assert relative_error(gradient, expected) < TOLERANCE


@pytest.mark.parametrize(("group", "kind"), ENCODERS)
def test_activations_take_less(group: str, kind: str) -> None:
    def peak_bytes(precision: str) -> int:
        encoder = make(group, kind, precision=precision)
        with MemoryPeak() as peak:
            learn(encoder, observe(group))
        return peak.bytes

    assert peak_bytes("bf16") < 0.75 * peak_bytes("float32")


@pytest.mark.parametrize("kind", get_args(PointEncoder))
def test_positions_are_not_rounded(kind: str) -> None:
    encoder = make("points", kind, precision="bf16")
    points = torch.full((2, 64, 3), 0.449)
    points[1] = 0.4498
    assert torch.equal(*(4.0 * points).bfloat16())
    with torch.no_grad():
        [latent] = encoder({"points": points})
    assert not torch.equal(*latent)


def test_float32_holds_within_an_autocast_of_a_library() -> None:
    obs = observe("points")
    expected, _ = learn(make("points"), obs)
    with torch.autocast("cpu", torch.bfloat16):
        [latent] = make("points")(obs)
    torch.testing.assert_close(latent, expected, rtol=0, atol=0)


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(ValueError, match=r"fp16.*float32.*bf16"):
        make("points", precision="fp16")
