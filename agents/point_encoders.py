# SPDX-License-Identifier: BSD-3-Clause
"""The encoders of point clouds by name. Torch only.

The latent of each depends neither on the order of the points nor on repetitions, so clouds may be padded by repeating
points.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from isaaclab_pc.agents.chunks import ChunkedEncoder, most_at_once, split_batch
from isaaclab_pc.agents.precision import Float32Linear, same_autocast

_MOST_ROWS_ON_GPU = 1 << 23
"""Critical points per chunk of activations on a GPU where no chunk is given.

The large agents have a latent of 256, so these are 32,768 clouds; their minibatches have up to 8,192. The layers of 64
and 128 keep 0.8 KiB for each critical point: 1.5 GiB in the whole minibatch.
"""


class PointEmbedding(nn.Module):
    """Inputs of the perceptron for a point: its scaled features, and Fourier features of its position.

    A small perceptron of the bare position is smooth, and blind to a centimetre in a workspace. Sines and cosines give
    it that detail: Tancik et al., Fourier Features Let Networks Learn High Frequency Functions in Low Dimensional
    Domains, NeurIPS 2020.
    """

    angular_frequencies: Tensor

    def __init__(self, in_features: int, scale: float, frequencies: Sequence[float]) -> None:
        """Set up the embedding: there is nothing to learn.

        ``scale`` multiplies all C features of a point; the first three are its position [m], of which each of the F
        spatial ``frequencies`` [1/m] makes sines and cosines.
        """
        super().__init__()
        self.scale = scale
        self.out_features = in_features + 6 * len(frequencies)
        angular = 2.0 * math.pi * torch.tensor(frequencies, dtype=torch.float32)
        self.register_buffer("angular_frequencies", angular, persistent=False)

    def forward(self, points: Tensor) -> Tensor:
        """Embed points (..., C) of any float dtype as (..., C + 6 F), in the module's dtype: scaled, sines, cosines."""
        points = points.to(self.angular_frequencies.dtype)
        if self.angular_frequencies.numel() == 0:
            return points * self.scale

        angles = (points[..., None, :3] * self.angular_frequencies[:, None]).flatten(-2)
        return torch.cat([points * self.scale, angles.sin(), angles.cos()], dim=-1)


class DensePointNet(nn.Module):
    """The textbook PointNet, which keeps every point in the graph. TorchScript and ONNX can express it.

    It shares its layers with a :class:`PointNet` and returns the same values and gradients.
    """

    def __init__(self, embedding: PointEmbedding, hidden: nn.Sequential, last: nn.Linear) -> None:
        """Wrap an embedding (..., C) to (..., E), layers of every point to (..., H), and the last one to (..., L)."""
        super().__init__()
        self.embedding = embedding
        self.hidden = hidden
        self.last = last

    def forward(self, points: Tensor) -> Tensor:
        """Encode clouds (B, K, C) of any float dtype to latents (B, L), float32, non-negative."""
        features = self.last(self.hidden(self.embedding(points)))
        return features.amax(dim=1).relu()


class PointNet(nn.Module):
    """One perceptron for every point, then the maximum: exact gradients at about the cost of an inference pass.

    Only the *critical points*, which attain a maximum (Qi et al., PointNet, CVPR 2017), receive a gradient. Training
    therefore runs the perceptron over the whole cloud without a graph, finds those points, and runs it again with a
    graph on them alone, or on a whole small cloud, but for its last layer. The gradient is that of the plain
    formulation, at a third of the time and a fraction of the memory.
    """

    def __init__(
        self,
        in_features: int,
        channels: Sequence[int],
        *,
        scale: float = 1.0,
        frequencies: Sequence[float] = (),
        chunk: int | None = None,
    ) -> None:
        """Create the layers; see :func:`make_point_encoder` for the arguments.

        ``chunk=None`` stands for as many clouds as have 2^20 critical points, or 2^23 on a GPU. Where more need a
        gradient, the backward pass computes the activations again.
        """
        super().__init__()
        self.embedding = PointEmbedding(in_features, scale, frequencies)
        layers: list[nn.Module] = []
        sizes = [self.embedding.out_features, *channels]
        for index, (size_in, size_out) in enumerate(itertools.pairwise(sizes[:-1])):
            linear = Float32Linear if index == 0 else nn.Linear
            # In place: a linear layer needs its input for the gradient, not its output.
            layers += [linear(size_in, size_out), nn.ReLU(inplace=True)]
        self.hidden = nn.Sequential(*layers)
        self.last = nn.Linear(sizes[-2], sizes[-1])

        self.chunk = chunk
        self.latent_dim = sizes[-1]

    def dense(self) -> DensePointNet:
        """Return the textbook formulation on the same layers, for export and as a reference."""
        return DensePointNet(self.embedding, self.hidden, self.last)

    def forward(self, points: Tensor, winners: Tensor | None = None) -> Tensor:
        """Encode clouds (B, K, C) of any float dtype to latents (B, L), float32, non-negative.

        ``winners``, (B, L), are the points that attain the maxima, where these are known.
        """
        if winners is not None:
            return self._latent(points, winners)
        if not torch.is_grad_enabled():
            parts = split_batch(points, points.shape[1], self.chunk)
            pooled = torch.cat([self._features(part).amax(dim=1) for part in parts])
            return (pooled + self.last.bias).relu()

        rows = points.shape[1]
        if points.device.type == "cpu" or not self._shares(points):
            # A cache has to hold what the last layer reads as well: a row for each latent feature.
            rows = max(rows, self.latent_dim)
        parts = split_batch(points, rows, self.chunk)
        if points.shape[0] > self.at_once(points):
            return torch.cat([_EvaluatedAgain.apply(self, part, *self.parameters()) for part in parts])
        return torch.cat([self._latent(part) for part in parts])

    def at_once(self, points: Tensor) -> int:
        """Return how many of the clouds (B, K, C) have their activations held for the backward pass at once."""
        if self.chunk is None and points.device.type != "cpu":
            return max(1, _MOST_ROWS_ON_GPU // self.latent_dim)
        return most_at_once(self.latent_dim, self.chunk)

    def _shares(self, points: Tensor) -> bool:
        """Tell whether each point is evaluated once: of so few, most are critical for several latent features."""
        return 2 * points.shape[1] <= self.latent_dim

    def _latent(self, points: Tensor, winners: Tensor | None = None) -> Tensor:
        """Encode clouds with a graph, (B, K, C) to (B, L); ``winners``, (B, L), attain the maxima."""
        if self._shares(points):
            return self._shared_latent(points, winners)
        if winners is None:
            with torch.no_grad():
                winners = self._features(points).max(dim=1).indices.int()
        return self._critical_latent(points, winners)

    def _features(self, points: Tensor) -> Tensor:
        """Apply the perceptron, but for its last bias and activation, to every point, (B, K, C) to (B, K, L)."""
        # Both commute with the maximum, and are cheaper after it.
        batch, count, features = points.shape
        embedded = self.embedding(points.reshape(batch * count, features))
        return functional.linear(self.hidden(embedded), self.last.weight).view(batch, count, self.latent_dim)

    def _critical_latent(self, points: Tensor, winners: Tensor) -> Tensor:
        """Evaluate each latent feature at the point that attains its maximum, (B, K, C) and (B, L) to (B, L)."""
        # With the latent first, (L, B, C), the last layer is one batched product over contiguous blocks.
        clouds = torch.arange(points.shape[0], device=points.device)
        critical = points[clouds, winners.t()]
        latent_dim, batch, features = critical.shape
        hidden = self.hidden(self.embedding(critical.reshape(latent_dim * batch, features)))
        return self._last_of(hidden.view(latent_dim, batch, self.last.in_features))

    def _shared_latent(self, points: Tensor, winners: Tensor | None = None) -> Tensor:
        """Do as :meth:`_critical_latent`, but evaluate each point once, however many maxima it attains."""
        batch, count, features = points.shape
        hidden = self.hidden(self.embedding(points.reshape(batch * count, features)))
        if winners is None:
            with torch.no_grad():
                values = functional.linear(hidden, self.last.weight).view(batch, count, self.latent_dim)
                winners = values.max(dim=1).indices

        # Rows are taken as an embedding takes them: its gradient is deterministic on CUDA.
        rows = winners + count * torch.arange(batch, device=points.device)[:, None]
        return self._last_of(functional.embedding(rows.t(), hidden))

    def _last_of(self, hidden: Tensor) -> Tensor:
        """Apply the last layer to the points that attain the maxima, (L, B, H) to (B, L)."""
        # One row of the last layer for each feature, and not all of them for every point.
        values = torch.bmm(hidden, self.last.weight.unsqueeze(-1)).squeeze(-1)
        return (values.t() + self.last.bias).relu()


class _EvaluatedAgain(torch.autograd.Function):
    """Encodes clouds and keeps only them and their winners: the backward pass evaluates those again."""

    @staticmethod
    def forward(ctx: Any, net: PointNet, points: Tensor, *parameters: Tensor) -> Tensor:
        values, winners = net._features(points).max(dim=1)
        ctx.net = net
        ctx.autocast = same_autocast(points.device.type)
        ctx.save_for_backward(points, winners.int())
        return (values + net.last.bias).relu()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        points, winners = ctx.saved_tensors
        needed = ctx.needs_input_grad[1:]
        # Not the parameters themselves: hooks on them, such as the tripwire's, would be called for this part alone, and
        # PyTorch's for several gradients raises then.
        own = (points, *ctx.net.parameters())
        inputs = [x.detach().requires_grad_(need) for x, need in zip(own, needed, strict=True)]
        parameters = {name: x for (name, _), x in zip(ctx.net.named_parameters(), inputs[1:], strict=True)}
        with torch.enable_grad(), ctx.autocast:
            latent = functional_call(ctx.net, parameters, (inputs[0], winners))
        found = iter(torch.autograd.grad(latent, [x for x in inputs if x.requires_grad], grads))
        return None, *(next(found) if need else None for need in needed)


class Dp3(nn.Module):
    """The encoder of 3D Diffusion Policy (Ze et al. 2024): a PointNet with layer normalization, then a projection."""

    def __init__(self, embedding: PointEmbedding, channels: Sequence[int]) -> None:
        """Create the layers; the last one of ``channels`` is also the size of the latent, L."""
        super().__init__()
        self.embedding = embedding
        self.latent_dim = channels[-1]
        layers: list[nn.Module] = []
        for index, (size_in, size_out) in enumerate(itertools.pairwise([embedding.out_features, *channels])):
            linear = Float32Linear if index == 0 else nn.Linear
            layers += [linear(size_in, size_out), nn.LayerNorm(size_out), nn.ReLU()]
        self.each = nn.Sequential(*layers)
        self.projection = nn.Sequential(nn.Linear(channels[-1], channels[-1]), nn.LayerNorm(channels[-1]))

    def rows(self, points: Tensor) -> int:
        """Return the rows of activations of a cloud."""
        return points.shape[1]

    def forward(self, points: Tensor) -> Tensor:
        """Encode clouds (B, K, C) of any float dtype to latents (B, L)."""
        return self.projection(self.each(self.embedding(points)).amax(dim=1))


def make_point_encoder(
    kind: str,
    in_features: int,
    channels: Sequence[int],
    *,
    scale: float = 1.0,
    frequencies: Sequence[float] = (),
    chunk: int | None = None,
) -> PointNet | ChunkedEncoder:
    """Make the encoder of a point cloud, from clouds (B, K, C) of any float dtype to latents (B, L).

    ``kind`` is ``pointnet`` or ``dp3``. ``channels`` are the sizes of the perceptron's layers, L the last one; for
    features, scale and frequencies see :class:`PointEmbedding`. ``chunk`` are the clouds whose activations are held at
    once; None: as many as make 2^20 rows.

    Raises:
        ValueError: There is no such kind.
    """
    if kind == "pointnet":
        return PointNet(in_features, channels, scale=scale, frequencies=frequencies, chunk=chunk)

    if kind == "dp3":
        return ChunkedEncoder(Dp3(PointEmbedding(in_features, scale, frequencies), channels), chunk)

    raise ValueError(f"point_encoder={kind!r}: there are pointnet and dp3")
