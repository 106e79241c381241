# SPDX-License-Identifier: BSD-3-Clause
"""Cabinets with one drawer, in many sizes, with a bar, a knob or an edge to pull."""

from __future__ import annotations

from typing import Literal

import numpy as np
from isaaclab.utils import configclass

from isaaclab_pc.assets.articulated import Shape, Shapes, Vector

DRAWER_AXIS: Vector = (-1.0, 0.0, 0.0)
"""Direction in which a drawer opens, in the root frame."""

_PANEL = 0.01
"""Thickness of the boards [m]."""

_PLATE_BELOW = 0.029
"""Depth, below a knob's or an edge's centre, of the plate that holds it [m]: fingertips stay above the plate."""

_WOOD = (0.55, 0.42, 0.30)
_LIGHT_WOOD = (0.72, 0.60, 0.45)
_STEEL = (0.60, 0.62, 0.65)


@configclass
class Cabinet:
    """A cabinet that stands on the plane z = 0 of its root frame, with the front towards -x. Lengths are in [m].

    A gripper that points down fits behind the handle, turned by up to 0.4 rad: the handle is far enough from the front,
    and so close to the top that the hand stays above the cabinet.
    """

    depth: float = 0.20
    width: float = 0.26
    height: float = 0.20

    side: int = 0
    """Where the drawer is: 0 in the whole width, 1 in the half towards +y, -1 in that towards -y."""

    handle: Literal["bar", "knob", "edge"] = "bar"
    """A bar on two posts, a narrow paddle on one, or a lip in front of a gutter, as wide as the drawer."""

    handle_length: float = 0.14
    handle_radius: float = 0.008

    handle_y: float = 0.0
    """Place of the handle's middle along the front."""

    below_top: float = 0.025
    """Depth of the handle below the cabinet's top."""

    gap: float = 0.05
    """Free space between the drawer's front and the handle."""

    @property
    def travel(self) -> float:
        """How far the drawer opens."""
        return 0.8 * self.depth

    @property
    def handle_center(self) -> Vector:
        """Middle of the handle in the root frame, drawer closed."""
        return (-self.depth / 2 - self.gap - self.handle_radius, self.handle_y, self.height - self.below_top)

    @property
    def drawer_span(self) -> tuple[float, float]:
        """Middle and width of the drawer's front along y."""
        return self.side * self.width / 4, self.width / 2 if self.side else self.width

    def shapes(self) -> Shapes:
        """Return the shapes by the prim that they are below."""
        return {"body/cabinet": self._body(), "drawer/drawer": self._drawer(), "drawer/handle": self._handle()}

    def _body(self) -> list[Shape]:
        depth = self.depth - _PANEL
        at = _PANEL / 2
        middle, span = self.drawer_span
        height = self.height - 2 * _PANEL
        back = (_PANEL, self.width - 2 * _PANEL, height)
        shapes = [
            Shape("box", (at, 0.0, _PANEL / 2), (depth, self.width, _PANEL), _WOOD),
            Shape("box", (at, 0.0, self.height - _PANEL / 2), (depth, self.width, _PANEL), _WOOD),
            Shape("box", (self.depth / 2 - _PANEL / 2, 0.0, self.height / 2), back, _WOOD),
        ]
        for side in (-1.0, 1.0):
            # Beside a drawer of half the width, all is wall.
            outer = side * self.width / 2
            inner = middle + side * (span / 2 - _PANEL)
            wall = (depth, abs(outer - inner), height)
            shapes.append(Shape("box", (at, (outer + inner) / 2, self.height / 2), wall, _WOOD))
        return shapes

    def _drawer(self) -> list[Shape]:
        # The front covers the opening; sides, back and floor keep 5 mm from the body.
        middle, span = self.drawer_span
        width = span - 2 * _PANEL - 0.01
        depth = self.depth - 2 * _PANEL - 0.01
        at = -self.depth / 2 + _PANEL + depth / 2
        wall = (0.10, 0.08)
        front = (_PANEL, span, self.height - 0.01)
        shapes = [
            Shape("box", (-self.depth / 2 + _PANEL / 2, middle, self.height / 2 + 0.005), front, _LIGHT_WOOD),
            Shape("box", (at, middle, 0.03), (depth, width, _PANEL), _LIGHT_WOOD),
            Shape("box", (at + depth / 2 - _PANEL / 2, middle, wall[1]), (_PANEL, width, wall[0]), _LIGHT_WOOD),
        ]
        for side in (-1.0, 1.0):
            y = middle + side * (width - _PANEL) / 2
            shapes.append(Shape("box", (at, y, wall[1]), (depth, _PANEL, wall[0]), _LIGHT_WOOD))
        return shapes

    def _handle(self) -> list[Shape]:
        x, y, z = self.handle_center
        length = self.handle_length
        radius = self.handle_radius
        lip = Shape("capsule_y", (x, y, z), (radius, length), _STEEL)
        post = self.gap + radius
        if self.handle == "bar":
            ends = (y - length / 2, y + length / 2)
            return [lip, *(Shape("box", (x + post / 2, end, z), (post, 0.012, 0.012), _STEEL) for end in ends)]
        plate = (post + radius, length if self.handle == "edge" else 0.02, 0.008)
        return [
            lip,
            Shape("box", (x + (post - radius) / 2, y, z - _PLATE_BELOW), plate, _STEEL),
            Shape("box", (x, y, z - _PLATE_BELOW / 2), (2 * radius, length, _PLATE_BELOW), _STEEL),
        ]


def _draw(seed: int) -> Cabinet:
    g = np.random.default_rng(seed)
    handle = ("bar", "knob", "edge")[seed % 3]
    side = int(g.integers(-1, 2))
    width = g.uniform(0.20, 0.28) if side == 0 else g.uniform(0.29, 0.35)
    radius = g.uniform(0.005, 0.008)
    longest = (width / 2 if side else width) - 0.02 - 2 * radius
    lengths = {"bar": (0.085, min(0.15, longest)), "knob": (0.03, 0.045), "edge": (longest, longest)}
    length = g.uniform(*lengths[handle])
    return Cabinet(
        depth=g.uniform(0.16, 0.22),
        width=width,
        height=g.uniform(0.16, 0.22),
        side=side,
        handle=handle,
        handle_length=length,
        handle_radius=radius,
        handle_y=side * width / 4 + g.uniform(-0.5, 0.5) * (longest - length),
        below_top=g.uniform(0.02, 0.03),
        gap=g.uniform(0.05, 0.06),
    )


CABINETS: dict[str, tuple[Cabinet, ...]] = {
    "one": (Cabinet(),),
    "train": tuple(_draw(seed) for seed in range(1000, 1048)),
    "held_out": tuple(_draw(seed) for seed in range(5000, 5012)),
}
"""Sets by name: the one that the task is usually played with, 48 to learn from, and 12 others to test with."""
