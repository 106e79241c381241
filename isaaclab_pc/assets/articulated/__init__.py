# SPDX-License-Identifier: BSD-3-Clause
"""Cabinets with a drawer and valves: the primitives of which they are made, their sizes, and sets of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Vector = tuple[float, float, float]
"""x, y and z."""

Shapes = Mapping[str, Sequence["Shape"]]
"""Shapes by the path of the prim that they are below, ``<link>/<semantic class>``."""


@dataclass(frozen=True)
class Shape:
    """A primitive fixed to a link, seen and touched."""

    kind: str
    """``box``, or ``capsule_x``, ``capsule_y``, ``capsule_z`` by the capsule's axis."""

    center: Vector
    """Centre in the link frame [m]."""

    size: tuple[float, ...]
    """Edge lengths of a box, or radius and length without the caps of a capsule [m]."""

    color: Vector = (0.9, 0.9, 0.92)
    """Linear RGB in [0, 1]."""

    yaw: float = 0.0
    """Turn of a box about z [rad]."""
