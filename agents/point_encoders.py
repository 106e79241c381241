# SPDX-License-Identifier: BSD-3-Clause
"""The encoders of point clouds by name. Torch only; TorchScript and ONNX can express them.

The latent of each depends neither on the order of the points nor on how often a point is repeated.
"""

import itertools
from collections.abc import Sequence

from torch import Tensor, nn

from isaaclab_pc.agents.chunks import ChunkedEncoder
from isaaclab_pc.agents.pointnet import PointEmbedding, PointNet
from isaaclab_pc.agents.precision import Float32Linear

__all__ = ["Dp3", "make_point_encoder"]


class Dp3(nn.Module):
    """The encoder of 3D Diffusion Policy (Ze et al. 2024): a PointNet with layer normalization, then a projection."""

    def __init__(self, embedding: PointEmbedding, channels: Sequence[int]) -> None:
        """Create the layers; the last one of ``channels`` is the size of the latent, L, too."""
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
        kind: ``pointnet`` or ``dp3``.
        in_features: Features of one point, C; the first three are its position [m].
        channels: Sizes of the layers of the perceptron that each point passes; the last one is the size of the latent.
        scale: Factor on the input, so that positions [m] in a workspace span about [-1, 1].
        frequencies: Spatial frequencies [1/m] of the sines and cosines of the points' positions.
        chunk: Clouds per chunk of activations; None: as many as make 2^20 rows.

    Returns:
        Maps clouds (B, K, C) of any float dtype to latents (B, L).

    Raises:
        ValueError: There is no such kind.
    """
    if kind == "pointnet":
        return PointNet(in_features, channels, scale=scale, frequencies=frequencies, chunk=chunk)

    if kind == "dp3":
        net = Dp3(PointEmbedding(in_features, scale, frequencies), channels)
        return ChunkedEncoder(net, net.rows, channels[-1], chunk)

    raise ValueError(f"point_encoder={kind!r}: there are pointnet and dp3")
