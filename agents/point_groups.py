# SPDX-License-Identifier: BSD-3-Clause
"""Neighbourhoods of a cloud for encoders that see local shape. Torch only.

Which points make a neighbourhood depends on the set of points alone: neither on their order nor on how often one is
repeated, as clouds are padded by repetition. TorchScript and ONNX can express all of it, unlike
:func:`isaaclab_pc.sensors.cloud_ops.knn`.
"""

import torch
from torch import Tensor

__all__ = ["group_points", "sort_points"]


def group_points(points: Tensor, groups: int, size: int) -> tuple[Tensor, Tensor]:
    """Spread centres over each cloud and find the points around them.

    Centres are the farthest-point sample, as in PointNet++ (Qi et al. 2017); around each are the points nearest to it.

    Args:
        points: Clouds, shape (B, K, 3 or more), float32 or float64, finite.
        groups: Centres of a cloud, Q; of K points at most K. Where a cloud has fewer distinct ones the first one
            repeats.
        size: Points around a centre, S, the centre itself first; of K points at most K. Where a cloud has fewer
            distinct ones the centre repeats.

    Returns:
        Positions of the centres, shape (B, Q, 3), and the points around them, shape (B, Q, S, C).
    """
    count = points.shape[1]
    points, is_copy = sort_points(points)
    xyz = points[..., :3]
    centers = _farthest_points(xyz, min(groups, count))

    nearest = _nearest(xyz, centers, is_copy, min(size, count))
    flat = nearest.flatten(1).unsqueeze(-1).expand(-1, -1, points.shape[2])
    grouped = points.gather(1, flat).view(nearest.shape[0], nearest.shape[1], nearest.shape[2], points.shape[2])
    return centers, grouped


def sort_points(points: Tensor) -> tuple[Tensor, Tensor]:
    """Bring each cloud into an order that depends on its points alone.

    Args:
        points: Clouds, shape (B, K, 3 or more).

    Returns:
        The sorted clouds, and where a point equals the one before it, shape (B, K), bool.
    """
    # Points are sorted by one number. The ratio of the features' weights in it (the root of cos x = x) is no root of a
    # polynomial with rational coefficients: only equal points have equal numbers, but for rounding in double precision.
    ratio = 0.7390851332151607
    # One feature at a time: in a sum over the last dimension equal points might be rounded differently.
    key = points[..., 0].double()
    for feature in range(1, points.shape[2]):
        key = key + points[..., feature].double() * ratio**feature

    key, order = key.sort(dim=1)
    is_copy = torch.cat([torch.zeros_like(key[:, :1], dtype=torch.bool), key[:, 1:] == key[:, :-1]], dim=1)
    return points.gather(1, order.unsqueeze(-1).expand(-1, -1, points.shape[2])), is_copy


def _farthest_points(xyz: Tensor, number: int) -> Tensor:
    """Choose points (B, Q, 3) one by one, each as far as possible from those before; the first one comes first."""
    chosen = [xyz[:, 0]]
    distance = _squared(xyz - xyz[:, :1])
    for _ in range(number - 1):
        farthest = distance.argmax(dim=1, keepdim=True)
        chosen.append(xyz.gather(1, farthest.unsqueeze(-1).expand(-1, -1, 3)).squeeze(1))
        distance = torch.minimum(distance, _squared(xyz - chosen[-1].unsqueeze(1)))
    return torch.stack(chosen, dim=1)


def _nearest(xyz: Tensor, centers: Tensor, is_copy: Tensor, size: int) -> Tensor:
    """Find the points nearest to each centre, copies left out, (B, Q, S); of equally near ones the first come first."""
    distance = _squared(centers.unsqueeze(2) - xyz.unsqueeze(1)).double()
    # Equal distances, 0 among them, are told apart by less than the last digit of a float32.
    order = torch.arange(xyz.shape[1], dtype=torch.float64, device=xyz.device)
    distance = (distance + 1e-18) * (1.0 + 2.0**-36 * order)
    distance = distance.masked_fill(is_copy.unsqueeze(1), float("inf"))

    found, nearest = distance.topk(size, dim=-1, largest=False)
    return torch.where(found.isinf(), nearest[..., :1], nearest)


def _squared(difference: Tensor) -> Tensor:
    """Return squared lengths (...) of vectors (..., 3)."""
    x, y, z = difference.unbind(-1)
    return x * x + y * y + z * z
