# SPDX-License-Identifier: BSD-3-Clause
"""Operations on batches of clouds, (N, K, C): scaling, augmentation and neighbours. Plain torch, on any device.

The first three of the C features of a point are its position; the rest, such as colours, pass through unchanged. 16-bit
clouds are computed in float32 and returned in their own dtype. Nothing waits for a GPU, and every function but
:func:`knn` and :func:`ball_query`, which return indices, is differentiable in the points.

Random draws come from a ``torch.Generator`` (None: torch's global one) and not from environment keys: learning
libraries augment shuffled minibatches, in which it is no longer known of which environment and step a cloud is.

The grouping of a hierarchical encoder, with the positions relative to the centres::

    neighbors = ball_query(points, centers, radius=0.05, k=32)
    groups = gather_points(points, neighbors.indices)
    groups = torch.cat((groups[..., :3] - centers[:, :, None], groups[..., 3:]), dim=-1)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

_CPU_SLICE_BYTES = 8 << 20
"""Memory of the distances that are held at once on a CPU: what stays in its cache takes half the time."""

_GPU_SLICE_BYTES = 64 << 20
"""The same on a GPU."""

_PAIR_BYTES = 16
"""Memory for each pair of a point and a centre: two float32 of distance and an int64 of key."""


class Neighbors(NamedTuple):
    """Neighbours of Q centres in each of N clouds."""

    indices: Tensor
    """Points, shape (N, Q, k), int64; where fewer than k were found the first one repeats, and 0 if there was none."""

    mask: Tensor
    """True where a neighbour was found, False where one repeats, shape (N, Q, k), bool."""


def normalize(points: Tensor, lower: Sequence[float], upper: Sequence[float]) -> Tensor:
    """Map a crop box to [-1, 1] along each axis.

    Args:
        points: Clouds [m], shape (N, K, 3 or more).
        lower: Smallest x, y, z of the box [m].
        upper: Largest x, y, z of the box [m].

    Returns:
        Clouds of the same shape and dtype. The zeros of an empty cloud are mapped as well.

    Raises:
        ValueError: The box is empty, or a shape is wrong.
        TypeError: The points are not of a float dtype.
    """
    _check_cloud("points", points)
    if not (len(lower) == len(upper) == 3 and all(low < high for low, high in zip(lower, upper, strict=True))):
        raise ValueError(f"lower={tuple(lower)}, upper={tuple(upper)}: expected three values each, lower below upper")

    xyz = _position(points)
    # Numbers, not tensors: a copy to the GPU cannot be recorded in a CUDA graph.
    scaled = [
        (xyz[..., axis] - 0.5 * (low + high)) * (2.0 / (high - low))
        for axis, (low, high) in enumerate(zip(lower, upper, strict=True))
    ]
    return _with_position(points, torch.stack(scaled, dim=-1))


def rotate(points: Tensor, quat: Tensor, normals: int | None = None) -> Tensor:
    """Rotate clouds about the origin of their frame.

    A policy that is fed rotated clouds needs its goals, poses and actions rotated alike, by the same quaternions.

    Args:
        points: Clouds, shape (N, K, 3 or more).
        quat: Unit quaternions (x, y, z, w), shape (N, 4).
        normals: First of the three features that hold a direction, such as 3; they rotate as well.

    Returns:
        Clouds of the same shape and dtype.

    Raises:
        ValueError: A shape is wrong, or the points have no features for the normals.
        TypeError: A tensor is not of a float dtype.
    """
    _check_cloud("points", points)
    if quat.shape != (points.shape[0], 4):
        raise ValueError(f"quat has shape {tuple(quat.shape)}: expected ({points.shape[0]}, 4), one per cloud")
    if not quat.is_floating_point():
        raise TypeError(f"quat has dtype {quat.dtype}: expected a float dtype")
    if normals is not None and not 3 <= normals <= points.shape[-1] - 3:
        raise ValueError(f"normals={normals}: expected 3 up to 3 less than the features of {tuple(points.shape)}")

    xyz = _position(points)
    quat = quat.to(xyz.dtype)[:, None]
    rotated = _with_position(points, _rotate_vectors(xyz, quat))
    if normals is None:
        return rotated

    directions = points[..., normals : normals + 3].to(xyz.dtype)
    directions = _rotate_vectors(directions, quat).to(points.dtype)
    return torch.cat((rotated[..., :normals], directions, rotated[..., normals + 3 :]), dim=-1)


def random_rotation(
    num: int,
    axis: Sequence[float] = (0.0, 0.0, 1.0),
    max_angle: float = math.pi,
    *,
    generator: torch.Generator | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    """Draw rotations about an axis for :func:`rotate`.

    Args:
        num: Number of rotations, N.
        axis: Direction of the axis, of any length but zero; z is up in every frame of a robot that stands.
        max_angle: Angles are uniform in [-max_angle, max_angle] [rad].
        generator: Source of randomness, on ``device``.
        device: Torch device; None is torch's default.

    Returns:
        Unit quaternions (x, y, z, w), shape (N, 4), float32.

    Raises:
        ValueError: The axis is not a direction.
    """
    length = math.hypot(*axis)
    if len(axis) != 3 or not 0.0 < length < math.inf:
        raise ValueError(f"axis={tuple(axis)}: expected three values that are not all zero")

    half = (torch.rand(num, generator=generator, device=device) - 0.5) * max_angle
    sin = half.sin()
    return torch.stack([*(sin * (value / length) for value in axis), half.cos()], dim=-1)


def jitter(points: Tensor, sigma: float, clip: float, *, generator: torch.Generator | None = None) -> Tensor:
    """Move every point by clipped Gaussian noise.

    Method: PointNet (Qi et al. 2017), which takes ``clip = 5 * sigma``. Points that pad a cloud by repetition move
    apart; a learner sees more noisy copies of the same points.

    Args:
        points: Clouds [m], shape (N, K, 3 or more).
        sigma: Standard deviation along each axis [m].
        clip: Largest move along each axis [m].
        generator: Source of randomness, on the device of the points.

    Returns:
        Clouds of the same shape and dtype.

    Raises:
        ValueError: A shape is wrong, or sigma or clip is negative.
        TypeError: The points are not of a float dtype.
    """
    _check_cloud("points", points)
    if not (sigma >= 0.0 and clip >= 0.0):
        raise ValueError(f"sigma={sigma} and clip={clip}: expected both to be at least 0")

    xyz = _position(points)
    noise = torch.randn(xyz.shape, generator=generator, device=xyz.device, dtype=xyz.dtype)
    return _with_position(points, xyz + noise.mul_(sigma).clamp_(-clip, clip))


def drop_points(points: Tensor, max_ratio: float = 0.875, *, generator: torch.Generator | None = None) -> Tensor:
    """Drop random points of each cloud, which keeps its shape: the first point that is kept takes their place.

    Method: PointNet++ (Qi et al. 2017): the share to drop is uniform in [0, max_ratio), drawn for each cloud. At least
    one point is kept.

    Args:
        points: Clouds, shape (N, K, 3 or more).
        max_ratio: Largest share of points that is dropped; PointNet++'s by default.
        generator: Source of randomness, on the device of the points.

    Returns:
        Clouds of the same shape and dtype.

    Raises:
        ValueError: A shape is wrong, or max_ratio is not in [0, 1].
        TypeError: The points are not of a float dtype.
    """
    _check_cloud("points", points)
    if not 0.0 <= max_ratio <= 1.0:
        raise ValueError(f"max_ratio={max_ratio}: expected a share from 0 to 1")

    num_clouds, num_points = points.shape[:2]
    device = points.device
    ratio = torch.rand(num_clouds, 1, generator=generator, device=device) * max_ratio
    kept = torch.rand(num_clouds, num_points, generator=generator, device=device) >= ratio

    # The maximum's first index; with nothing kept that is point 0, which then stands for the whole cloud.
    first = kept.int().argmax(dim=1, keepdim=True)
    return torch.where(kept[..., None], points, gather_points(points, first))


@torch.no_grad()
def knn(points: Tensor, centers: Tensor, k: int, count: Tensor | None = None) -> Neighbors:
    """Find the k nearest points of each centre, nearest first; of equally near ones the lowest index is first.

    Args:
        points: Clouds [m], shape (N, K, 3 or more), finite.
        centers: Centres [m], shape (N, Q, 3 or more), finite; they need not be points of the cloud.
        k: Number of neighbours, at most K.
        count: Points of each cloud that are real, shape (N,), integer; those after them, which pad the cloud, are no
            neighbours. None: all are real.

    Returns:
        Indices of the neighbours, and where they are real: a cloud may have fewer than k points.

    Raises:
        ValueError: A shape or k is wrong, or the tensors are on different devices.
        TypeError: A tensor is of the wrong kind of dtype.
    """

    def nearest(points: Tensor, centers: Tensor, excluded: Tensor | None) -> tuple[Tensor, Tensor]:
        distance = _squared_distances(points, centers)
        if excluded is not None:
            distance.masked_fill_(excluded, math.inf)

        # The bits of floats that are not negative sort as the floats do. With the index behind them no keys are equal,
        # and selecting by them takes no longer than by floats, whose ties come in any order.
        order = torch.arange(points.shape[1], device=points.device)
        key = distance.view(torch.int32).long().bitwise_left_shift_(32).bitwise_or_(order)
        indices = key.topk(k, largest=False).values.bitwise_and_(0xFFFFFFFF)

        real = points.shape[1] if excluded is None else (~excluded).sum(dim=-1, keepdim=True)
        return indices, torch.arange(k, device=points.device).expand_as(indices) < real

    return _search(nearest, points, centers, k, count)


@torch.no_grad()
def ball_query(points: Tensor, centers: Tensor, radius: float, k: int, count: Tensor | None = None) -> Neighbors:
    """Find the first k points, by index, that are closer to each centre than a radius.

    Method: PointNet++ (Qi et al. 2017). The order of the points decides which ones are taken: of a cloud in random or
    farthest-point order they are spread over the ball, where the k nearest ones would crowd around its centre.

    Args:
        points: Clouds [m], shape (N, K, 3 or more), finite.
        centers: Centres [m], shape (N, Q, 3 or more), finite; they need not be points of the cloud.
        radius: Radius of the ball [m].
        k: Most neighbours that are taken, at most K.
        count: Points of each cloud that are real, shape (N,), integer; those after them, which pad the cloud, are no
            neighbours. None: all are real.

    Returns:
        Indices of the neighbours in ascending order, and where they are real: a ball may hold fewer than k points.

    Raises:
        ValueError: A shape, the radius or k is wrong, or the tensors are on different devices.
        TypeError: A tensor is of the wrong kind of dtype.
    """
    if not radius > 0.0:
        raise ValueError(f"radius={radius}: expected more than 0")

    def inside(points: Tensor, centers: Tensor, excluded: Tensor | None) -> tuple[Tensor, Tensor]:
        near = _squared_distances(points, centers) < radius * radius
        if excluded is not None:
            near &= ~excluded

        # The i-th point of the ball is where the number of those found so far becomes i: no sort is needed.
        found = near.cumsum(dim=-1, dtype=torch.int32)
        rank = torch.arange(1, k + 1, device=points.device, dtype=torch.int32)
        indices = torch.searchsorted(found, rank.expand(*found.shape[:-1], k).contiguous())
        return indices, rank <= found[..., -1:]

    return _search(inside, points, centers, k, count)


def gather_points(points: Tensor, indices: Tensor) -> Tensor:
    """Take points of each cloud.

    Args:
        points: Clouds, shape (N, K, C), any dtype.
        indices: Points to take, shape (N, ...), int64, each in [0, K).

    Returns:
        Shape (N, ..., C).

    Raises:
        ValueError: A shape is wrong.
        TypeError: The indices are not integers.
    """
    if points.dim() != 3:
        raise ValueError(f"points has shape {tuple(points.shape)}: expected (N, K, C)")
    if indices.dim() < 2 or indices.shape[0] != points.shape[0]:
        raise ValueError(
            f"indices has shape {tuple(indices.shape)}: expected ({points.shape[0]}, ...), a row per cloud"
        )
    if indices.dtype != torch.int64:
        raise TypeError(f"indices has dtype {indices.dtype}: expected torch.int64")

    flat = indices.flatten(1)[..., None].expand(-1, -1, points.shape[2])
    return points.gather(1, flat).view(*indices.shape, points.shape[2])


def _search(
    find: Callable[[Tensor, Tensor, Tensor | None], tuple[Tensor, Tensor]],
    points: Tensor,
    centers: Tensor,
    k: int,
    count: Tensor | None,
) -> Neighbors:
    """Apply a search to slices of the batch, so that the distances of all pairs are never held at once.

    ``find`` takes points (n, K, 3), centres (n, q, 3) and the points that pad, (n, 1, K), and returns indices and mask,
    both (n, q, k); the indices need not be valid where the mask is False.
    """
    _check_search(points, centers, k, count)
    num_clouds, num_points = points.shape[:2]
    num_centers = centers.shape[1]
    indices = torch.empty(num_clouds, num_centers, k, dtype=torch.int64, device=points.device)
    mask = torch.empty(num_clouds, num_centers, k, dtype=torch.bool, device=points.device)
    order = torch.arange(num_points, device=points.device)

    for clouds, queries in _slices(num_clouds, num_centers, num_points, points.device.type):
        excluded = None if count is None else order >= count[clouds, None, None]
        xyz = points[clouds, :, :3].float()
        found, real = find(xyz, centers[clouds, queries, :3].float(), excluded)

        first = torch.where(real[..., :1], found[..., :1], 0)
        indices[clouds, queries] = torch.where(real, found, first)
        mask[clouds, queries] = real
    return Neighbors(indices, mask)


def _slices(num_clouds: int, num_centers: int, num_points: int, device: str) -> Iterator[tuple[slice, slice]]:
    """Cut (N, Q) into rectangles, each so small that its distances to all points fit into the memory of a slice."""
    pairs = (_CPU_SLICE_BYTES if device == "cpu" else _GPU_SLICE_BYTES) // _PAIR_BYTES
    centers_at_once = max(1, min(num_centers, pairs // num_points))
    clouds_at_once = max(1, pairs // (centers_at_once * num_points))
    for cloud in range(0, num_clouds, clouds_at_once):
        for center in range(0, num_centers, centers_at_once):
            yield slice(cloud, cloud + clouds_at_once), slice(center, center + centers_at_once)


def _squared_distances(points: Tensor, centers: Tensor) -> Tensor:
    """Return squared distances (n, q, K) of points (n, K, 3) to centres (n, q, 3).

    As sums of squared differences: with a matrix product, as torch.cdist may take them, near points lose every digit.
    """
    total = (centers[:, :, None, 0] - points[:, None, :, 0]).square_()
    for axis in (1, 2):
        difference = centers[:, :, None, axis] - points[:, None, :, axis]
        total.addcmul_(difference, difference)
    return total


def _rotate_vectors(vectors: Tensor, quat: Tensor) -> Tensor:
    """Rotate (N, K, 3) by (N, 1, 4). No matrix product: on a GPU those may be rounded to TF32's ten bits."""
    imaginary = quat[..., :3]
    real = quat[..., 3:]
    twice = 2.0 * torch.linalg.cross(imaginary, vectors)
    return vectors + real * twice + torch.linalg.cross(imaginary, twice)


def _position(points: Tensor) -> Tensor:
    """Return the positions in the dtype to compute in."""
    xyz = points[..., :3]
    return xyz.float() if points.dtype in (torch.float16, torch.bfloat16) else xyz


def _with_position(points: Tensor, xyz: Tensor) -> Tensor:
    """Return the points with other positions, in their own dtype."""
    xyz = xyz.to(points.dtype)
    return xyz if points.shape[-1] == 3 else torch.cat((xyz, points[..., 3:]), dim=-1)


def _check_cloud(name: str, points: Tensor) -> None:
    """Refuse a tensor that is not a batch of clouds."""
    if points.dim() != 3 or points.shape[1] < 1 or points.shape[2] < 3:
        raise ValueError(f"{name} has shape {tuple(points.shape)}: expected (N, K, 3 or more) with K at least 1")
    if not points.is_floating_point():
        raise TypeError(f"{name} has dtype {points.dtype}: expected a float dtype")


def _check_search(points: Tensor, centers: Tensor, k: int, count: Tensor | None) -> None:
    """Refuse arguments of a neighbour search that do not fit together."""
    _check_cloud("points", points)
    _check_cloud("centers", centers)
    if centers.shape[0] != points.shape[0]:
        raise ValueError(
            f"centers has shape {tuple(centers.shape)}: expected ({points.shape[0]}, Q, 3 or more), as many clouds as "
            f"points of shape {tuple(points.shape)}"
        )
    if not 1 <= k <= points.shape[1]:
        raise ValueError(f"k={k}: expected 1 to {points.shape[1]}, K of points of shape {tuple(points.shape)}")

    if count is not None:
        if count.shape != points.shape[:1]:
            raise ValueError(f"count has shape {tuple(count.shape)}: expected ({points.shape[0]},), one per cloud")
        if count.is_floating_point() or count.dtype == torch.bool:
            raise TypeError(f"count has dtype {count.dtype}: expected an integer dtype")

    for name, tensor in (("centers", centers), ("count", count)):
        if tensor is not None and tensor.device != points.device:
            raise ValueError(f"{name} is on {tensor.device}: expected {points.device}, the device of points")
