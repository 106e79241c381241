# SPDX-License-Identifier: BSD-3-Clause
"""The encoders against textbook formulations."""

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.autograd.graph import register_multi_grad_hook

from isaaclab_pc.agents import chunks
from isaaclab_pc.agents.networks import FrameEncoder, ObservationEncoder, RunningNorm, StatePredictor
from isaaclab_pc.agents.point_encoders import PointEmbedding, PointNet
from isaaclab_pc.agents.ppo import EncoderSettings

ENCODER = EncoderSettings(point_channels=(8, 16), depth_channels=(4, 8), depth_latent=10)


def gradients(module: nn.Module) -> torch.Tensor:
    grads = [p.grad.flatten() for p in module.parameters() if p.grad is not None]
    assert len(grads) == len(list(module.parameters()))
    return torch.cat(grads)


@pytest.mark.parametrize("channels", [(16,), (8, 16), (8, 12, 16)])
@pytest.mark.parametrize(("chunk", "cached_rows"), [(None, 1 << 14), (None, 40), (3, 1 << 14), (1, 1)])
@pytest.mark.parametrize("frequencies", [(), (0.5, 1.0)])
@pytest.mark.parametrize("count", [20, 8])
def test_values_and_gradients_are_those_of_the_dense_formulation(
    monkeypatch: pytest.MonkeyPatch,
    channels: tuple[int, ...],
    chunk: int | None,
    cached_rows: int,
    frequencies: tuple[float, ...],
    count: int,
) -> None:
    monkeypatch.setattr(chunks, "_CACHED_ROWS", cached_rows)
    torch.manual_seed(0)
    net = PointNet(4, channels, scale=2.0, frequencies=frequencies, chunk=chunk).double()
    points = torch.randn(7, count, 4, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(7, 16, dtype=torch.float64)

    def compute(encode: nn.Module) -> list[torch.Tensor]:
        """Return the latents and the gradients of points and parameters."""
        latent = encode(points)
        return [latent.detach(), *torch.autograd.grad((latent * weights).sum(), [points, *net.parameters()])]

    expected = compute(net.dense())
    torch.testing.assert_close(compute(net), expected, rtol=1e-10, atol=1e-10)
    with torch.no_grad():
        torch.testing.assert_close(net(points), expected[0])


def test_frequencies_add_sines_and_cosines_of_the_position_alone() -> None:
    embedding = PointEmbedding(4, 3.0, (1.0, 4.0))
    point = torch.tensor([0.1, 0.2, 0.3, 0.7])
    embedded = embedding(point)

    angles = 2.0 * torch.pi * torch.tensor([0.1, 0.2, 0.3, 0.4, 0.8, 1.2])
    assert embedding.out_features == 16
    torch.testing.assert_close(embedded, torch.cat([3.0 * point, angles.sin(), angles.cos()]))
    assert embedding.state_dict() == {}


LARGE = (64, 128, 256)


@pytest.mark.parametrize(
    ("channels", "chunk", "shape", "rows"),
    [
        # Each point of a small cloud passes once; of a larger one, the winners pass again.
        ((8, 16, 64), None, (7, 32), [7 * 32]),
        ((8, 16, 64), None, (7, 33), [7 * 33, 7 * 64]),
        # Where activations are evaluated again, the search for the winners has passed all points before.
        ((8, 16), 3, (7, 8), [3 * 8, 3 * 8, 8, 8, 3 * 8, 3 * 8]),
        ((8, 16), 3, (7, 20), [3 * 20, 3 * 20, 20, 16, 3 * 16, 3 * 16]),
        # A GPU keeps the activations of the large agents' minibatch.
        (LARGE, None, (24_576, 128), 3 * [8192 * 128]),
        (LARGE, None, (24_576, 256), 12 * [4096 * 256]),
    ],
)
def test_how_many_points_pass_the_hidden_layers_in_training(
    channels: tuple[int, ...],
    chunk: int | None,
    shape: tuple[int, int],
    rows: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The meta device takes the way of a GPU and has no memory, nor an autocast.
    device = "meta" if channels == LARGE else "cpu"
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda _: False)
    monkeypatch.setattr(torch, "get_autocast_dtype", lambda _: torch.float32)
    net = PointNet(3, channels, chunk=chunk).to(device)
    passed = []
    net.hidden.register_forward_hook(lambda module, inputs, output: passed.append(len(output)))
    net(torch.randn(*shape, 3, device=device)).sum().backward()
    assert passed == rows


def test_the_encoders_tell_how_many_samples_they_hold_at_once() -> None:
    def at_once(shapes: dict[str, tuple[int, ...]], device: str = "cpu", **changes: Any) -> int:
        return ObservationEncoder(shapes, replace(ENCODER, **changes)).to(device).samples_at_once()

    cloud = {"policy": (5,), "points": (128, 3)}
    large: dict[str, Any] = {"point_channels": LARGE}
    assert (at_once(cloud, **large), at_once(cloud, "meta", **large)) == (4096, 32_768)
    assert at_once(cloud, point_encoder="dp3") == 8192
    assert at_once({**cloud, "depth": (1, 64, 64)}, point_encoder="dp3") == 4096
    assert at_once(cloud, chunk=100) == 100
    assert at_once({"policy": (5,)}) == 0


@pytest.mark.parametrize("points", [5, 40])
def test_hooks_see_the_whole_gradient_once_where_activations_are_evaluated_again(points: int) -> None:
    net = PointNet(3, (8, 16), chunk=2)
    parameters = list(net.parameters())
    seen: list[list[torch.Tensor]] = []
    register_multi_grad_hook(
        parameters, lambda grads: seen.append([grad.clone() for grad in grads if grad is not None])
    )
    net(torch.randn(7, points, 3)).sum().backward()
    [grads] = seen
    for grad, parameter in zip(grads, parameters, strict=True):
        assert parameter.grad is not None
        assert torch.equal(grad, parameter.grad)


def test_a_part_of_a_frozen_encoder_has_no_gradient() -> None:
    net = PointNet(3, (8, 16), chunk=3)
    net.last.requires_grad_(False)
    net(torch.randn(7, 8, 3)).sum().backward()
    assert net.last.weight.grad is None
    assert net.hidden[0].weight.grad is not None


def test_observation_encoder_takes_each_group_to_its_encoder() -> None:
    shapes = {"policy": (6,), "points": (12, 3), "depth": (1, 16, 16)}
    encoder = ObservationEncoder(shapes, ENCODER)
    obs = {name: torch.rand(2, *shape) for name, shape in shapes.items()}
    assert encoder.groups == ["points", "depth"]
    assert [latent.shape[1] for latent in encoder(obs)] == [16, 10]
    assert encoder.latent_dim == 26
    with pytest.raises(ValueError, match="'video'"):
        ObservationEncoder({"video": (2, 3, 16, 16)}, ENCODER)


@pytest.mark.parametrize("chunk", ["auto", 5])
def test_each_frame_of_a_history_has_the_latent_that_it_has_alone(chunk: Any) -> None:
    torch.manual_seed(0)
    shapes = {"policy": (6,), "points": (3, 40, 3), "depth": (2, 1, 16, 16)}
    encoder = ObservationEncoder(shapes, replace(ENCODER, chunk=chunk))
    obs = {name: torch.rand(4, *shape) for name, shape in shapes.items()}
    latents = encoder(obs)
    assert encoder.latent_dim == 3 * 16 + 2 * 10

    for latent, name in zip(latents, ("points", "depth"), strict=True):
        frames = encoder.encoders[name]
        assert isinstance(frames, FrameEncoder)
        each = [frames.encoder(obs[name][:, frame]) for frame in range(shapes[name][0])]
        torch.testing.assert_close(latent, torch.cat(each, dim=1))
    # A sample holds the activations of all its frames.
    assert encoder.samples_at_once() == (1 if chunk == 5 else (1 << 20) // 16 // 3)


def test_running_norm_counts_from_the_next_rollout_on() -> None:
    torch.manual_seed(0)
    norm = RunningNorm(3, eps=0.0)
    seen = torch.randn(100, 3) * 4.0 + 2.0
    for part in seen.split(30):
        norm.add_samples(part)
    torch.testing.assert_close(norm(seen), seen)
    norm.apply_samples()
    expected = (seen - seen.mean(0)) / seen.std(0, unbiased=False)
    torch.testing.assert_close(norm(seen), expected, rtol=1e-4, atol=1e-5)


def test_predictor_adds_its_loss_to_the_backward_pass_only() -> None:
    torch.manual_seed(0)
    predictor = StatePredictor(4, 3, coef=0.5)
    body = nn.Linear(2, 4)
    x, state, weights = torch.randn(6, 2), torch.randn(6, 3), torch.randn(6, 4)

    latent = predictor(body(x), state)
    torch.testing.assert_close(latent, body(x))
    latent.mul(weights).sum().backward()
    ours = gradients(nn.ModuleList([body, predictor.head]))

    body.zero_grad()
    predictor.zero_grad()
    latent = body(x)
    loss = 0.5 * (predictor.head(latent) - predictor.norm(state)).square().mean()
    (latent.mul(weights).sum() + loss).backward()
    torch.testing.assert_close(ours, gradients(nn.ModuleList([body, predictor.head])))
