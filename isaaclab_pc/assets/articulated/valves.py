# SPDX-License-Identifier: BSD-3-Clause
"""Valves with a vertical axis: three to eight spokes, a crank or a wheel, and an upright knob of any size."""

from __future__ import annotations

import math

import numpy as np
from isaaclab.utils import configclass

from isaaclab_pc.assets.articulated import Shape, Shapes

PAD_HEIGHT = 0.176
"""Height of the tool centre where the fingers touch the knob with their pads alone, in the root frame [m]."""

_SPOKE_HEIGHT = 0.12
_SPOKE_WIDTH = 0.018
_NUM_BARS = 7
"""Boxes of which spokes and rim are made, at the most."""

_STEEL = (0.60, 0.62, 0.65)
_RED = (0.75, 0.12, 0.10)


@configclass
class Valve:
    """A valve that stands on the plane z = 0 of its root frame; its knob is towards +x at joint position 0."""

    spokes: int = 4
    """Number of spokes, the first of them below the knob. One is a crank, two carry a rim of six sides."""

    radius: float = 0.09
    """Distance of the knob from the axis [m]."""

    knob_radius: float = 0.012
    """Radius of the knob [m]."""

    knob_length: float = 0.045
    """Length of the knob without its round ends [m]."""

    knob_height: float = 0.16
    """Height of the knob's middle [m]."""

    def shapes(self) -> Shapes:
        """Return the shapes by the prim that they are below."""
        stand = (
            Shape("box", (0.0, 0.0, 0.015), (0.14, 0.14, 0.03), _STEEL),
            Shape("capsule_z", (0.0, 0.0, 0.06), (0.02, 0.06), _STEEL),
        )
        hub = Shape("capsule_z", (0.0, 0.0, _SPOKE_HEIGHT - 0.005), (0.022, 0.01), _RED)
        knob = Shape("capsule_z", (self.radius, 0.0, self.knob_height), (self.knob_radius, self.knob_length), _STEEL)
        stem = Shape("capsule_z", (self.radius, 0.0, _SPOKE_HEIGHT + 0.02), (0.006, 0.04), _STEEL)
        # The file has as many for all: what is left is inside the hub.
        bars = [*self._bars(), *[_bar(0.0, 0.0, 0.01)] * _NUM_BARS][:_NUM_BARS]
        return {"stand/stand": stand, "valve/valve": (hub, *bars), "valve/handle": (knob, stem)}

    def _bars(self) -> list[Shape]:
        reach = self.radius + 0.01
        if self.spokes == 2:
            # The knob stands where the bar meets the middle of a side.
            side = 2.0 * reach * math.tan(math.pi / 6.0)
            rim = [_bar(turn * math.pi / 3.0, reach, side, across=True) for turn in range(6)]
            return [_bar(0.0, 0.0, 2.0 * reach), *rim]
        apart = 2.0 * math.pi / self.spokes
        if self.spokes % 2 == 0:
            return [_bar(turn * apart, 0.0, 2.0 * reach) for turn in range(self.spokes // 2)]
        return [_bar(turn * apart, reach / 2.0, reach) for turn in range(self.spokes)]


def _bar(angle: float, distance: float, length: float, *, across: bool = False) -> Shape:
    """Return a bar around a point at an angle [rad] and a distance [m] from the axis, towards the axis or across."""
    center = (distance * math.cos(angle), distance * math.sin(angle), _SPOKE_HEIGHT)
    return Shape("box", center, (length, _SPOKE_WIDTH, _SPOKE_WIDTH), _RED, angle + (math.pi / 2.0 if across else 0.0))


def _draw(seed: int) -> Valve:
    g = np.random.default_rng(seed)
    knob_radius = g.uniform(0.010, 0.017)
    length = g.uniform(0.005, 0.045)
    return Valve(
        spokes=seed % 8 or 8,
        radius=g.uniform(0.07, 0.105),
        knob_radius=knob_radius,
        knob_length=length,
        knob_height=PAD_HEIGHT + 0.006 - length / 2.0,
    )


VALVES: dict[str, tuple[Valve, ...]] = {
    "one": (Valve(),),
    "train": tuple(_draw(seed) for seed in range(1000, 1048)),
    "held_out": tuple(_draw(seed) for seed in range(5000, 5016)),
}
"""Sets by name: the one that the task is usually played with, 48 to learn from, and 16 others to test with."""
