# SPDX-License-Identifier: BSD-3-Clause
"""Pegs and boxes with a hole, in pairs of several sizes, made of boxes by code.

A peg is one box along its x axis. A box with a hole is walls around a square opening along its x axis: one kinematic
body. Sizes and their ranges are those of ManiSkill's PegInsertionSide
(https://github.com/haosulab/ManiSkill, ``peg_insertion_side.py``). The hole's mouth is chamfered here, as holes for
insertion are.
"""

import math

import isaaclab.sim as sim_utils
import numpy as np
from isaaclab.assets import RigidObjectCfg
from isaaclab.sim.schemas import MassCfg, UsdPhysicsCollisionCfg
from isaaclab.sim.spawners import RigidObjectSpawnerCfg
from isaaclab.utils import configclass
from numpy.typing import NDArray
from scipy.stats import qmc

from isaaclab_pc.assets.physics_properties import free_body_properties, patch_contacts, patch_friction
from isaaclab_pc.assets.primitives import Vector

_SLOPE_THICKNESS = 0.015
"""Thickness of the boxes that make the hole's mouth [m]; all but their inner faces is inside the walls."""

_PEG_DENSITY = 200.0
"""Mass per volume of a peg [kg/m^3]."""


@configclass
class PegAndBox:
    """Sizes of a peg and of the box that it fits into.

    The box is a cube of edge ``2 * half_length``. A peg with its head in the hole's middle sticks out by half of it.
    """

    half_length: float = 0.105
    """Half of the peg's length, and of the box's edge [m]."""

    radius: float = 0.02
    """Half of the peg's width and height [m]."""

    hole_center: tuple[float, float] = (0.0, 0.0)
    """y and z of the hole's axis in the box's frame [m]."""

    clearance: float = 0.003
    """Half of the opening's width less the peg's radius [m]."""

    chamfer: float = 0.006
    """How much wider the hole is at its mouth, the face of the box at which x is smallest, on each side [m]."""

    chamfer_depth: float = 0.012
    """How deep the mouth is [m]."""

    @property
    def hole_radius(self) -> float:
        """Half of the opening's width and height behind the mouth [m]."""
        return self.radius + self.clearance

    def walls(self) -> list[tuple[Vector, Vector]]:
        """Return centre and edge lengths of the walls in the box's frame [m]; they touch and do not overlap.

        Four stand around the mouth at its widest, four around the hole behind it.
        """
        behind = -self.half_length + self.chamfer_depth
        return [
            *self._walls_around(-self.half_length, behind, self.hole_radius + self.chamfer),
            *self._walls_around(behind, self.half_length, self.hole_radius),
        ]

    def slopes(self) -> list[tuple[Vector, Vector, Vector]]:
        """Return centre, edge lengths [m] and rotation vector [rad] of the boxes between mouth and hole."""
        length = math.hypot(self.chamfer, self.chamfer_depth)
        angle = math.atan2(self.chamfer, self.chamfer_depth)
        middle = -self.half_length + self.chamfer_depth / 2 + _SLOPE_THICKNESS / 2 * math.sin(angle)
        off_axis = self.hole_radius + self.chamfer / 2 + _SLOPE_THICKNESS / 2 * math.cos(angle)
        width = 2.0 * (self.hole_radius + self.chamfer)
        y, z = self.hole_center

        slopes: list[tuple[Vector, Vector, Vector]] = []
        for side in (1.0, -1.0):
            turn = side * angle
            slopes.append(((middle, y + side * off_axis, z), (length, _SLOPE_THICKNESS, width), (0.0, 0.0, -turn)))
            slopes.append(((middle, y, z + side * off_axis), (length, width, _SLOPE_THICKNESS), (0.0, turn, 0.0)))
        return slopes

    def _walls_around(self, front: float, back: float, opening: float) -> list[tuple[Vector, Vector]]:
        """Return four walls around a square opening of half the width ``opening``, between two places along x [m]."""
        half = self.half_length
        middle = (front + back) / 2
        depth = back - front
        y, z = self.hole_center

        walls: list[tuple[Vector, Vector]] = []
        for side in (1.0, -1.0):
            width = half - side * y - opening
            height = half - side * z - opening
            walls.append(((middle, side * (half - width / 2), z), (depth, width, 2.0 * opening)))
            walls.append(((middle, 0.0, side * (half - height / 2)), (depth, 2.0 * half, height)))
        return walls


def peg_and_box_variants(count: int) -> list[PegAndBox]:
    """Return ``count`` sizes that fill ManiSkill's ranges evenly: a Halton sequence, the same in every run.

    The peg is 0.17 to 0.25 m long and 0.03 to 0.05 m thick; the hole is off the box's middle by up to half of what the
    wall's thickness allows.
    """
    # The sequence begins at the lower end of every range, which is not a typical size.
    unit = qmc.Halton(d=4, scramble=False).random(count + 1)[1:]

    variants = []
    for length, thickness, y, z in unit.tolist():
        half_length = 0.085 + 0.04 * length
        radius = 0.015 + 0.01 * thickness
        offset = 0.5 * (half_length - radius)
        center = (offset * (2.0 * y - 1.0), offset * (2.0 * z - 1.0))
        variants.append(PegAndBox(half_length, radius, center))
    return variants


def same_variant_of_each(weights: NDArray[np.float64], num_clones: int) -> NDArray[np.int64]:
    """Choose what Isaac Lab's cloner builds in each environment: the first peg with the first box, and so on in turn.

    ``weights`` has one entry per combination of V pegs with V boxes, in the order of ``itertools.product``; returns the
    combination of each environment, shape (num_clones,).
    """
    count = math.isqrt(len(weights))
    return (np.arange(num_clones) % count) * (count + 1)


@configclass
class BoxWithHoleCfg(RigidObjectSpawnerCfg):
    """Spawns a cube with a square hole through it along x, with a chamfer where x is smallest."""

    func: str = "{DIR}.peg_spawner:spawn_box_with_hole"

    size: PegAndBox = PegAndBox()
    """Sizes of box and hole."""

    friction: float = 0.3
    """Static and dynamic friction [1], whatever touches it: that of machined metal or plastic."""

    color: Vector = (0.85, 0.65, 0.30)
    """Linear RGB in [0, 1]."""


def peg_cfg(variants: list[PegAndBox]) -> RigidObjectCfg:
    """Return a peg of one of several sizes in each environment; its frame is in its middle, x points to the head."""
    pegs: list[sim_utils.SpawnerCfg] = [
        sim_utils.CuboidCfg(
            size=(2 * size.half_length, 2 * size.radius, 2 * size.radius),
            rigid_props=free_body_properties(),
            mass_props=MassCfg(mass=_PEG_DENSITY * 8 * size.half_length * size.radius**2),
            collision_props=[UsdPhysicsCollisionCfg(), patch_contacts()],
            physics_material=patch_friction(1.0),
            visual_material=sim_utils.PreviewSurfaceCfg(diffuse_color=(0.90, 0.45, 0.35)),
            semantic_tags=[("class", "peg")],
        )
        for size in variants
    ]
    return RigidObjectCfg(
        prim_path="{ENV_REGEX_NS}/Peg",
        spawn=sim_utils.MultiAssetSpawnerCfg(assets_cfg=pegs, random_choice=False),
        init_state=RigidObjectCfg.InitialStateCfg(pos=(0.5, 0.0, max(size.radius for size in variants))),
    )


def box_with_hole_cfg(variants: list[PegAndBox]) -> RigidObjectCfg:
    """Return a kinematic box with a hole along x, of one of several sizes in each environment.

    Move it by writing its pose only; PhysX complains about velocities written to a kinematic body.
    """
    boxes: list[sim_utils.SpawnerCfg] = [
        BoxWithHoleCfg(size=size, semantic_tags=[("class", "box")]) for size in variants
    ]
    return RigidObjectCfg(
        prim_path="{ENV_REGEX_NS}/Box",
        spawn=sim_utils.MultiAssetSpawnerCfg(assets_cfg=boxes, random_choice=False),
        init_state=RigidObjectCfg.InitialStateCfg(pos=(0.5, 0.35, max(size.half_length for size in variants))),
    )
