# SPDX-License-Identifier: BSD-3-Clause
"""Families of shapes that a parallel gripper can grasp, each drawn in sizes of its own, as convex parts.

A part is the cloud of points [m], (V, 3), that its convex hull goes around. Parts may overlap.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation
from trimesh.creation import icosphere

Points = NDArray[np.float64]
Parts = list[Points]
Family = Callable[[np.random.Generator], Parts]

ROUND = 20
"""Corners of a polygon in the place of a circle."""


def _box(size: tuple[float, float, float], center: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> Points:
    return np.array(list(product((-0.5, 0.5), repeat=3))) * size + center


def _circle(radius: float, z: float, corners: int = ROUND) -> Points:
    angle = 2.0 * np.pi * np.arange(corners) / corners
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), np.full(corners, z)], axis=1)


def _frustum(lower_radius: float, lower: float, upper_radius: float, upper: float, corners: int = ROUND) -> Points:
    return np.concatenate([_circle(lower_radius, lower, corners), _circle(upper_radius, upper, corners)])


def _ball(radius: float, z: float = 0.0) -> Points:
    return icosphere(subdivisions=2, radius=radius).vertices + np.array([0.0, 0.0, z])


def _wall(lower: tuple[float, float, float], upper: tuple[float, float, float], sectors: int) -> Parts:
    """Return a wall that goes round; the ends are (inner radius, outer radius, z)."""
    sector = 2.0 * np.pi / sectors
    parts = []
    for first in sector * np.arange(sectors):
        corners = [
            (radius * math.cos(angle), radius * math.sin(angle), z)
            for inner, outer, z in (lower, upper)
            for angle in (first, first + sector)
            for radius in (inner, outer)
        ]
        parts.append(np.array(corners))
    return parts


def box(g: np.random.Generator) -> Parts:
    """Return a box."""
    return [_box((g.uniform(0.025, 0.06), g.uniform(0.03, 0.11), g.uniform(0.025, 0.09)))]


def cylinder(g: np.random.Generator) -> Parts:
    """Return a cylinder."""
    radius = g.uniform(0.014, 0.031)
    return [_frustum(radius, 0.0, radius, g.uniform(0.04, 0.12))]


def capsule(g: np.random.Generator) -> Parts:
    """Return a cylinder with round ends."""
    radius = g.uniform(0.014, 0.028)
    return [np.concatenate([_ball(radius), _ball(radius, g.uniform(0.03, 0.09))])]


def wedge(g: np.random.Generator) -> Parts:
    """Return a prism of a triangle."""
    length = g.uniform(0.05, 0.09)
    top = (length * g.uniform(0.0, 0.5), g.uniform(0.03, 0.06))
    half = g.uniform(0.015, 0.0275)
    return [np.array([(x, y, z) for x, z in ((0.0, 0.0), (length, 0.0), top) for y in (-half, half)])]


def superquadric(g: np.random.Generator) -> Parts:
    """Return a body between a box, a ball and a double cone (Barr 1981)."""
    size = g.uniform((0.022, 0.022, 0.02), (0.034, 0.045, 0.045))
    east, north = g.uniform(0.4, 1.4, size=2)

    def power(value: Points, exponent: float) -> Points:
        return np.sign(value) * np.abs(value) ** exponent

    u, v = np.meshgrid(np.linspace(-np.pi / 2, np.pi / 2, 9), np.linspace(-np.pi, np.pi, 16, endpoint=False))
    x = power(np.cos(u), north) * power(np.cos(v), east)
    y = power(np.cos(u), north) * power(np.sin(v), east)
    return [np.stack([x, y, power(np.sin(u), north)], axis=-1).reshape(-1, 3) * size]


def letter_l(g: np.random.Generator) -> Parts:
    """Return an L."""
    thick, depth, long, short = g.uniform((0.02, 0.022, 0.06, 0.05), (0.032, 0.04, 0.11, 0.09))
    arm = short - thick / 2.0
    return [
        _box((long, thick, depth), (long / 2.0, 0.0, 0.0)),
        _box((thick, arm, depth), (thick / 2.0, short / 2.0 + thick / 4.0, 0.0)),
    ]


def letter_t(g: np.random.Generator) -> Parts:
    """Return a T."""
    thick, depth, bar, stem = g.uniform((0.02, 0.022, 0.07, 0.05), (0.03, 0.04, 0.11, 0.09))
    return [_box((bar, thick, depth)), _box((thick, stem, depth), (0.0, (thick + stem) / 2.0, 0.0))]


def cross(g: np.random.Generator) -> Parts:
    """Return a cross."""
    thick, depth, long, wide = g.uniform((0.02, 0.022, 0.07, 0.07), (0.03, 0.04, 0.11, 0.11))
    return [_box((long, thick, depth)), _box((thick, wide, depth))]


def star(g: np.random.Generator) -> Parts:
    """Return a prism of a star with five points."""
    outer = g.uniform(0.045, 0.06)
    inner = outer * g.uniform(0.45, 0.6)
    half = g.uniform(0.011, 0.02)

    def prism(corners: list[tuple[float, int]]) -> Points:
        """Return a prism with corners (radius, tenths of a turn)."""
        turns = [(radius, 2.0 * math.pi * tenth / 10) for radius, tenth in corners]
        return np.array([(r * math.cos(a), r * math.sin(a), z) for r, a in turns for z in (-half, half)])

    points = [prism([(inner, 2 * k - 1), (outer, 2 * k), (inner, 2 * k + 1)]) for k in range(5)]
    return [prism([(inner, 2 * k + 1) for k in range(5)]), *points]


def ring(g: np.random.Generator) -> Parts:
    """Return a ring."""
    radius, thick = g.uniform((0.035, 0.011), (0.055, 0.016))
    angle = 2.0 * np.pi * (np.arange(8) + 0.5) / 8
    circle = np.stack(
        [radius + thick * np.cos(angle), np.zeros(8), g.uniform(1.0, 1.3) * thick * np.sin(angle)], axis=1
    )
    turns = [Rotation.from_euler("z", 2.0 * np.pi * k / 12).apply(circle) for k in range(13)]
    return [np.concatenate(turns[k : k + 2]) for k in range(12)]


def mug(g: np.random.Generator) -> Parts:
    """Return a mug with its handle."""
    outer, thick, height, reach = g.uniform((0.028, 0.005, 0.06, 0.022), (0.036, 0.007, 0.09, 0.03))
    bar = 0.011
    grip = 0.6 * height
    middle = outer + reach / 2.0 - 0.004
    return [
        *_wall((outer - thick, outer, 0.0), (outer - thick, outer, height), 9),
        _frustum(0.97 * outer, 0.0, 0.97 * outer, 0.008),
        *(_box((reach, bar, bar), (middle, 0.0, height / 2.0 + side * grip / 2.0)) for side in (-1.0, 1.0)),
        _box((bar, bar, grip + bar), (outer + reach - 0.004, 0.0, height / 2.0)),
    ]


def bottle(g: np.random.Generator) -> Parts:
    """Return a bottle."""
    radius, height, neck, neck_height, shoulder = g.uniform(
        (0.022, 0.06, 0.011, 0.02, 0.012), (0.034, 0.09, 0.015, 0.035, 0.025)
    )
    top = height + shoulder
    return [
        _frustum(radius, 0.0, radius, height),
        _frustum(radius, height, neck, top),
        _frustum(neck, top, neck, top + neck_height),
    ]


def bowl(g: np.random.Generator) -> Parts:
    """Return a bowl."""
    outer, share, height, thick = g.uniform((0.038, 0.85, 0.035, 0.006), (0.05, 0.95, 0.05, 0.009))
    foot = outer * share
    floor = _frustum(0.95 * foot, 0.0, 0.95 * foot, 0.009)
    return [*_wall((foot - thick, foot, 0.0), (outer - thick, outer, height), 12), floor]


def hammer(g: np.random.Generator) -> Parts:
    """Return a hammer."""
    radius, length, head, thick = g.uniform((0.011, 0.09, 0.06, 0.024), (0.015, 0.14, 0.085, 0.034))
    # Along x.
    handle = _frustum(radius, 0.0, radius, length)[:, [2, 1, 0]]
    return [handle, _box((thick, head, thick), (length, 0.0, 0.0))]


def dumbbell(g: np.random.Generator) -> Parts:
    """Return two balls on a bar."""
    radius, bar, length = g.uniform((0.02, 0.01, 0.06), (0.03, 0.013, 0.09))
    return [_ball(radius), _ball(radius, length), _frustum(bar, 0.0, bar, length)]


def cup(g: np.random.Generator) -> Parts:
    """Return a cup with four to ten sides."""
    corners = 2 * int(g.integers(2, 6))
    outer, share, height, thick = g.uniform((0.026, 0.65, 0.045, 0.005), (0.04, 1.0, 0.1, 0.009))
    foot = outer * share
    floor = _frustum(0.97 * foot, 0.0, 0.97 * foot, 0.009, corners)
    return [*_wall((foot - thick, foot, 0.0), (outer - thick, outer, height), corners), floor]


def turned(g: np.random.Generator) -> Parts:
    """Return two to four cylinders or cones one upon the other, as from a lathe."""
    parts = []
    lower = 0.0
    for height in g.uniform(0.012, 0.045, size=g.integers(2, 5)):
        radii = g.uniform(0.01, 0.033, size=2)
        parts.append(_frustum(radii[0], lower, radii[g.integers(2)], lower + height))
        lower += height
    return parts


def compound(g: np.random.Generator) -> Parts:
    """Return two to four bodies of all kinds that stick in each other (Tobin et al. 2018)."""
    parts = [_body(g)]
    for _ in range(g.integers(1, 4)):
        body = _body(g)
        parts.append(body - _inside(g, body) + _inside(g, parts[g.integers(len(parts))]))
    return parts


def _body(g: np.random.Generator) -> Points:
    """Return a box, a prism, a pyramid's stump, a cylinder, a cone's stump or an ellipsoid."""
    kinds = (
        _box((1.0, 1.0, 1.0)),
        _frustum(0.5, -0.5, g.uniform(0.2, 0.5), 0.5, corners=int(g.choice((3, 4, 6, ROUND)))),
        _ball(0.5),
    )
    points = kinds[g.integers(3)] * g.uniform(0.018, (0.05, 0.05, 0.1))
    aligned = Rotation.from_euler("xyz", 90.0 * g.integers(4, size=3), degrees=True)
    oblique = Rotation.from_euler("xyz", g.uniform(0.0, 360.0, size=3), degrees=True)
    return (oblique if g.random() < 0.25 else aligned).apply(points)


def _inside(g: np.random.Generator, points: Points) -> Points:
    """Return a point of a convex part between its middle and a corner."""
    middle = points.mean(axis=0)
    return middle + g.uniform(0.0, 0.9) * (points[g.integers(len(points))] - middle)


KNOWN: dict[str, Family] = {
    "box": box,
    "cylinder": cylinder,
    "capsule": capsule,
    "wedge": wedge,
    "superquadric": superquadric,
    "L": letter_l,
    "T": letter_t,
    "cross": cross,
    "star": star,
    "ring": ring,
    "bottle": bottle,
    "bowl": bowl,
}
"""Families of things that have a name, of the set that policies are trained on."""

DRAWN: dict[str, Family] = {"cup": cup, "turned": turned, "compound": compound}
"""Families of no fixed shape, of the same set: they teach what a shape is, the others only their sizes."""

UNSEEN: dict[str, Family] = {"mug": mug, "hammer": hammer, "dumbbell": dumbbell}
"""Families that only the held-out set has."""

ALL: dict[str, Family] = {**KNOWN, **DRAWN, **UNSEEN}
