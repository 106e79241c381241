# SPDX-License-Identifier: BSD-3-Clause
"""Point-cloud encoders beside PointNet. Torch only; TorchScript and ONNX can express them.

The latent of each depends neither on the order of the points nor on how often a point is repeated.
"""

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from isaaclab_pc.agents.chunks import ChunkedEncoder
from isaaclab_pc.agents.point_groups import group_points
from isaaclab_pc.agents.pointnet import PointEmbedding, PointNet
from isaaclab_pc.agents.precision import Float32Linear

__all__ = ["Dp3", "PatchTransformer", "PointNet2", "make_point_encoder"]

_GROUPS = 32
"""Neighbourhoods of a cloud."""

_GROUP_SIZE = 16
"""Points of a neighbourhood."""

_LOCAL_SCALE = 4.0
"""Factor on positions within a neighbourhood: it is about a quarter of the workspace."""


class Dp3(nn.Module):
    """The encoder of 3D Diffusion Policy (Ze et al. 2024): a PointNet with layer normalization, then a projection."""

    def __init__(self, embedding: PointEmbedding, channels: Sequence[int]) -> None:
        """Create the layers.

        Args:
            embedding: What the first layer sees of a point.
            channels: Sizes of the perceptron's layers; the last one is the size of the latent, L, too.
        """
        super().__init__()
        self.embedding = embedding
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


class PointNet2(nn.Module):
    """One set abstraction of PointNet++ (Qi et al. 2017): a PointNet for each neighbourhood, then one over them."""

    def __init__(self, in_features: int, embedding: PointEmbedding, channels: Sequence[int]) -> None:
        """Create the layers.

        Args:
            in_features: Features of one point, C; the first three are its position [m].
            embedding: What the second perceptron sees of a centre.
            channels: Sizes of the first perceptron's layers; the last one is the size of the latent, L, too.
        """
        super().__init__()
        self.patches = _Patches(in_features, embedding.scale, channels)
        self.embedding = embedding
        self.last = Float32Linear(channels[-1] + embedding.out_features, channels[-1])

    def rows(self, points: Tensor) -> int:
        """Return the rows of activations of a cloud."""
        return self.patches.rows(points)

    def forward(self, points: Tensor) -> Tensor:
        """Encode clouds (B, K, C) of any float dtype to latents (B, L), non-negative."""
        centers, latents = self.patches(points)
        return self.last(torch.cat([latents, self.embedding(centers)], dim=-1)).amax(dim=1).relu()


class PatchTransformer(nn.Module):
    """Self-attention between neighbourhoods, as tokens.

    The idea of PointPatchRL (Gyenes et al. 2024), without its masked reconstruction.
    """

    def __init__(self, in_features: int, embedding: PointEmbedding, channels: Sequence[int], blocks: int = 2) -> None:
        """Create the layers.

        Args:
            in_features: Features of one point, C; the first three are its position [m].
            embedding: What a token is told of its centre.
            channels: Sizes of the layers of the perceptron that makes the tokens; the last one is that of the tokens
                and of the latent, L.
            blocks: Blocks of attention and perceptron.
        """
        super().__init__()
        self.patches = _Patches(in_features, embedding.scale, channels)
        self.embedding = embedding
        self.position = Float32Linear(embedding.out_features, channels[-1])
        self.blocks = nn.ModuleList([_Block(channels[-1]) for _ in range(blocks)])
        self.norm = nn.LayerNorm(channels[-1])

    def rows(self, points: Tensor) -> int:
        """Return the rows of activations of a cloud; a token's blocks hold about as much as another neighbourhood."""
        return 2 * self.patches.rows(points)

    def forward(self, points: Tensor) -> Tensor:
        """Encode clouds (B, K, C) of any float dtype to latents (B, L)."""
        centers, tokens = self.patches(points)
        tokens = tokens + self.position(self.embedding(centers))

        # A centre that repeats the first one is no token of its own.
        is_token = (centers != centers[:, :1]).any(dim=-1)
        is_token = torch.cat([torch.ones_like(is_token[:, :1]), is_token[:, 1:]], dim=1)
        for block in self.blocks:
            tokens = block(tokens, is_token)
        return self.norm(tokens).amax(dim=1)


class _Patches(nn.Module):
    """A PointNet for each neighbourhood of a cloud, in the frame of its centre."""

    def __init__(self, in_features: int, scale: float, channels: Sequence[int]) -> None:
        super().__init__()
        # TorchScript knows no constants of a module's file.
        self.groups = _GROUPS
        self.group_size = _GROUP_SIZE
        self.scale = scale
        self.local_scale = _LOCAL_SCALE * scale
        layers: list[nn.Module] = []
        for index, (size_in, size_out) in enumerate(itertools.pairwise([in_features, *channels])):
            linear = Float32Linear if index == 0 else nn.Linear
            layers += [linear(size_in, size_out), nn.ReLU()]
        self.each = nn.Sequential(*layers)

    def rows(self, points: Tensor) -> int:
        """Return the rows of activations of a cloud."""
        return min(self.groups, points.shape[1]) * min(self.group_size, points.shape[1])

    def forward(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Return the centres (B, Q, 3) [m] and the latents of their neighbourhoods (B, Q, L)."""
        if points.dtype != torch.float64:
            points = points.float()
        centers, groups = group_points(points, self.groups, self.group_size)
        local = (groups[..., :3] - centers.unsqueeze(2)) * self.local_scale
        seen = torch.cat([local, groups[..., 3:] * self.scale], dim=-1)
        return centers, self.each(seen).amax(dim=2)


class _Block(nn.Module):
    """Attention between tokens, then a perceptron for each, both normalized before."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.heads = math.gcd(4, size)
        self.attention_norm = nn.LayerNorm(size)
        self.query_key_value = nn.Linear(size, 3 * size)
        self.output = nn.Linear(size, size)
        self.perceptron = nn.Sequential(
            nn.LayerNorm(size), nn.Linear(size, 2 * size), nn.ReLU(), nn.Linear(2 * size, size)
        )

    def forward(self, tokens: Tensor, is_token: Tensor) -> Tensor:
        """Map tokens (B, Q, L) to tokens of the same shape; those that are none, (B, Q), are not attended to."""
        split = self.query_key_value(self.attention_norm(tokens)).unflatten(-1, (3, self.heads, -1))
        query, key, value = split.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=is_token[:, None, None])
        tokens = tokens + self.output(mixed.transpose(1, 2).flatten(2))
        return tokens + self.perceptron(tokens)


def make_point_encoder(
    kind: str,
    in_features: int,
    channels: Sequence[int],
    *,
    scale: float = 1.0,
    frequencies: Sequence[float] = (),
    chunk: int | None = None,
) -> PointNet | ChunkedEncoder:
    """Make the encoder of a point cloud.

    Args:
        kind: ``pointnet``, ``dp3``, ``pointnet2`` or ``transformer``.
        in_features: Features of one point, C; the first three are its position [m].
        channels: Sizes of the layers of the perceptron that each point passes; the last one is the size of the latent.
        scale: Factor on the input, so that positions [m] in a workspace span about [-1, 1].
        frequencies: Spatial frequencies [1/m] of the sines and cosines of positions: those of the points, or where
            neighbourhoods are made those of their centres.
        chunk: Clouds whose activations are held at once; None: as many as make 2^20 rows.

    Returns:
        Maps clouds (B, K, C) of any float dtype to latents (B, L).

    Raises:
        ValueError: There is no such kind.
    """
    if kind == "pointnet":
        return PointNet(in_features, channels, scale=scale, frequencies=frequencies, chunk=chunk)

    if kind == "dp3":
        net: Dp3 | PointNet2 | PatchTransformer = Dp3(PointEmbedding(in_features, scale, frequencies), channels)
    elif kind == "pointnet2":
        net = PointNet2(in_features, PointEmbedding(3, scale, frequencies), channels)
    elif kind == "transformer":
        net = PatchTransformer(in_features, PointEmbedding(3, scale, frequencies), channels)
    else:
        raise ValueError(f"point_encoder={kind!r}: there are pointnet, dp3, pointnet2 and transformer")
    return ChunkedEncoder(net, net.rows, channels[-1], chunk)
