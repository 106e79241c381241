# SPDX-License-Identifier: BSD-3-Clause
"""Grasps of a parallel gripper that comes from above: where two opposite surfaces fit between its fingers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

Floats = NDArray[np.floating]


# The gripper around its tool centre: z is the way down, the fingers close along y [m].
OPENING = 0.04
"""Distance of each finger from the tool centre when open."""
PAD_HALF_WIDTH = 0.0105
"""Half of a finger's pad along x."""
PAD_HALF_HEIGHT = 0.0095
"""Half of it along z."""
FINGER_DEPTH = 0.026
"""Of a finger along y, behind its pad."""
_PALM_HEIGHT = 0.041
"""Of the palm above the tool centre."""
_PALM_HALF_WIDTH = 0.032
"""Half of the palm along x; along y it is wider than any object."""


@dataclass(frozen=True)
class Grasps:
    """Grasps of an object in its own frame."""

    position: Floats
    """Tool centre [m], shape (G, 3)."""
    quat: Floats
    """Orientation of the tool (x, y, z, w), shape (G, 4)."""
    width: Floats
    """Distance of the fingers that hold it [m], shape (G,)."""
    cost: Floats
    """How far it is from the best that can be thought of, shape (G,)."""

    def __len__(self) -> int:
        """Return the number of grasps."""
        return len(self.width)

    def __getitem__(self, index: Any) -> Grasps:
        """Return some of them, as numpy indexes."""
        return Grasps(*(np.asarray(values)[index] for values in vars(self).values()))


_YAWS = math.pi * np.arange(12) / 12
_STEP = 0.008
"""Distance of neighbouring grasps along the fingers' width [m]."""
_MOST_WIDTH = 0.066
_LEAST_WIDTH = 0.004
_TABLE_CLEARANCE = 0.0115
"""Height of the tool centre above the table at least [m]: the pads end just above it."""
_GAP = 0.006
"""Distance from which two surfaces along y have a gap between them [m]."""
_MOST_WORSE = 0.8
"""Cost beyond that of the best grasp at most."""
_ALIGNED = 0.93
"""Cosine between the mean normal of where a pad touches and the fingers' way at least."""
_SQUARE = 0.8
"""Mean cosine between the normals there and that way at least."""


def top_down_grasps(points: Floats, normals: Floats, turn: Rotation) -> Grasps:
    """Find the grasps of an object that lies on a table, from above and for many yaws.

    Args:
        points: Points of its surface in its own frame, about its centre of mass [m], shape (M, 3), some thousands.
        normals: Outward normals there, shape (M, 3).
        turn: The rotation from its frame to that of the table, in which z is up.

    Returns:
        The grasps, in the object's frame.
    """
    found: list[tuple[Floats, Floats, float, float]] = []
    for yaw in _YAWS:
        # x along the pads' width, y between the fingers, z up.
        to_gripper = Rotation.from_euler("z", -yaw) * turn
        at = to_gripper.apply(points)
        facing = to_gripper.apply(normals)
        # The tool's z points down, so it is turned by half a turn about x.
        quat = (to_gripper.inv() * Rotation.from_euler("x", math.pi)).as_quat()
        for x in np.arange(math.ceil(at[:, 0].min() / _STEP) * _STEP, at[:, 0].max(), _STEP):
            near = np.abs(at[:, 0] - x) < PAD_HALF_WIDTH + 0.002
            below_palm = at[np.abs(at[:, 0] - x) < _PALM_HALF_WIDTH, 2]
            slab = at[near]
            for z in _heights(at[:, 2]):
                if len(slab) == 0 or below_palm.max() > z + _PALM_HEIGHT:
                    continue
                for y in _centers(slab, x, z):
                    grasp = _close_at(slab, facing[near], np.array([x, y, z]))
                    if grasp is not None:
                        found.append((to_gripper.inv().apply([x, y, z]), quat, *grasp))
    position, quats, width, cost = zip(*found, strict=True) if found else (np.zeros((0, 3)), np.zeros((0, 4)), (), ())
    return Grasps(np.array(position), np.array(quats), np.array(width), np.array(cost))


def spread(grasps: Grasps, count: int) -> Grasps:
    """Keep the best grasp and others, far from each other, that cost little more."""
    grasps = grasps[np.argsort(grasps.cost)]
    grasps = grasps[grasps.cost < grasps.cost[0] + _MOST_WORSE]
    axes = Rotation.from_quat(grasps.quat).as_matrix()[:, :, 1]
    nearest = np.full(len(grasps), np.inf)
    kept = [0]
    while len(kept) < min(count, len(grasps)):
        last = kept[-1]
        away = np.linalg.norm(grasps.position - grasps.position[last], axis=1) / 0.02
        nearest = np.minimum(nearest, away + 6.0 * (1.0 - np.abs(axes @ axes[last])))
        score = nearest - 1.5 * grasps.cost
        score[kept] = -np.inf
        kept.append(int(score.argmax()))
    return grasps[kept]


def _heights(z: Floats) -> list[float]:
    """Return heights of the tool centre: of the centre of mass, the middle, and some below the top."""
    top = z.max()
    floor = z.min() + _TABLE_CLEARANCE
    wanted = (0.0, top - 0.036, top - 0.02, top - 0.01, (z.min() + top) / 2.0)
    return sorted({round(float(max(floor, height)), 4) for height in wanted})


def _centers(slab: Floats, x: float, z: float) -> list[float]:
    """Return where the tool centre may be along y: in the middle of all that is there, or of a wall."""
    is_between = np.abs(slab[:, 2] - z) < PAD_HALF_HEIGHT
    is_between &= np.abs(slab[:, 0] - x) < PAD_HALF_WIDTH
    y = np.sort(slab[is_between, 1])
    if len(y) < 6:
        return []
    surfaces = np.split(y, np.flatnonzero(np.diff(y) > _GAP) + 1)
    walls = [(first[0] + second[-1]) / 2.0 for first, second in pairwise(surfaces)]
    return sorted({round(float(center), 4) for center in ((y[0] + y[-1]) / 2.0, *walls)})


def _close_at(slab: Floats, facing: Floats, center: Floats) -> tuple[float, float] | None:
    """Return width and cost of closing the fingers at a place; None where they meet something or do not hold."""
    x, y, z = (slab - center).T
    comes_by = (z > -PAD_HALF_HEIGHT - 0.002) & (z < 0.05)
    is_in_the_way = (np.abs(y) > OPENING - 0.003) & (np.abs(y) < OPENING + FINGER_DEPTH)
    if (comes_by & is_in_the_way).any():
        return None

    between = (np.abs(z) < PAD_HALF_HEIGHT) & (np.abs(x) < PAD_HALF_WIDTH)
    between &= np.abs(y) < OPENING
    if not between.any():
        return None
    left = y[between].min()
    right = y[between].max()
    width = float(right - left)
    if not _LEAST_WIDTH < width < _MOST_WIDTH or abs(left + right) > 0.008:
        return None

    depth = min(0.0025, 0.1 * width)
    touches_left = between & (y < left + depth)
    touches_right = between & (y > right - depth)
    # A pad that touches a hollow with both its edges is pressed upon from the middle between them.
    from_left = facing[touches_left].mean(axis=0)
    from_right = facing[touches_right].mean(axis=0)
    if min(-from_left[1], from_right[1]) < _SQUARE:
        return None
    aligned = min(-from_left[1] / np.linalg.norm(from_left), from_right[1] / np.linalg.norm(from_right))
    # How far the two contacts miss each other, which turns the object.
    miss = math.hypot(*(float(axis[touches_left].mean() - axis[touches_right].mean()) for axis in (x, z)))
    if aligned < _ALIGNED or miss > 0.3 * width + 0.003:
        return None

    off_center = math.hypot(center[0], center[1])
    cost = 12.0 * off_center + 4.0 * abs(center[2]) + 3.0 * (1.0 - aligned) + miss / max(width, 0.01)
    cost += 20.0 * max(0.0, width - 0.055)
    return width, float(cost)
