# SPDX-License-Identifier: BSD-3-Clause
"""Write the USD files of a cabinet with a drawer and of a valve: ``python -m tools.assets.author_articulated``.

Both are made of boxes and capsules that are visual and collision shapes at once, and stand on the plane z = 0 of their
root frame. All links share that frame at joint position 0. The settings of PhysX and Newton come from the spawn
configs in ``isaaclab_pc/assets/articulated.py``.
"""

# USD's type stubs say that every call returns None.
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from pxr import Sdf, Usd, UsdGeom, UsdPhysics, UsdSemantics, Vt

from isaaclab_pc.assets.articulated import (
    BAR_RADIUS,
    CABINET_SIZE,
    CABINET_USD,
    DRAWER_AXIS,
    DRAWER_JOINT,
    DRAWER_SPEED,
    DRAWER_TRAVEL,
    HANDLE_CENTER,
    HANDLE_GAP,
    KNOB_CENTER,
    LARGEST_EFFORT,
    VALVE_JOINT,
    VALVE_SPEED,
    VALVE_USD,
)
from tools.assets.author import author_anchor, author_joint, author_shape, new_articulation, save
from tools.assets.kinematics import Joint
from tools.assets.primitives import Shape

_BAR_LENGTH = 0.14
_PANEL = 0.01
"""Thickness of the boards [m]."""

_DRAWER = Joint(
    DRAWER_JOINT,
    "body",
    "drawer",
    axis=DRAWER_AXIS,
    prismatic=True,
    lower=0.0,
    upper=DRAWER_TRAVEL,
    velocity=DRAWER_SPEED,
    effort=LARGEST_EFFORT,
)

_ARM_LENGTH = 0.10
_ARM_HEIGHT = 0.12
_ARM_WIDTH = 0.018

KNOB_RADIUS = 0.012
"""Radius of the valve's knob [m]."""

KNOB_RANGE = math.radians(150.0)
"""How far the valve turns to either side [rad]."""

_VALVE = Joint(
    VALVE_JOINT,
    "stand",
    "valve",
    axis=(0.0, 0.0, 1.0),
    lower=-KNOB_RANGE,
    upper=KNOB_RANGE,
    velocity=VALVE_SPEED,
    effort=LARGEST_EFFORT,
)

_LIMIT_SOLREF = (0.02, 1.0)
"""Time constant [s] and damping ratio [1] of the joint limits on Newton: MuJoCo's ``solreflimit`` at its default."""

_WOOD = (0.55, 0.42, 0.30)
_LIGHT_WOOD = (0.72, 0.60, 0.45)
_STEEL = (0.60, 0.62, 0.65)
_RED = (0.75, 0.12, 0.10)


@dataclass(frozen=True)
class _Link:
    """A rigid body."""

    mass: float
    """Mass, which the solvers spread evenly over the shapes [kg]."""

    shapes: dict[str, tuple[Shape, ...]]
    """Shapes by semantic class."""


def _cabinet_links() -> dict[str, _Link]:
    depth, width, height = CABINET_SIZE
    inner = width - 2 * _PANEL
    # The front board covers the opening; sides, back and floor of the drawer keep 5 mm from the body.
    front = -depth / 2 + _PANEL / 2
    body_center = _PANEL / 2
    body_depth = depth - _PANEL
    tray_width = inner - 0.01
    tray_depth = depth - 2 * _PANEL - 0.01
    tray_height = 0.10
    tray_floor = 0.03
    tray_center = -depth / 2 + _PANEL + tray_depth / 2
    bar_x, _, bar_z = HANDLE_CENTER
    post = HANDLE_GAP + BAR_RADIUS

    body = [
        Shape("box", (body_center, 0.0, _PANEL / 2), (body_depth, width, _PANEL), _WOOD),
        Shape("box", (body_center, 0.0, height - _PANEL / 2), (body_depth, width, _PANEL), _WOOD),
        Shape("box", (depth / 2 - _PANEL / 2, 0.0, height / 2), (_PANEL, inner, height - 2 * _PANEL), _WOOD),
    ]
    drawer = [
        Shape("box", (front, 0.0, height / 2 + 0.005), (_PANEL, width, height - 0.01), _LIGHT_WOOD),
        Shape("box", (tray_center, 0.0, tray_floor), (tray_depth, tray_width, _PANEL), _LIGHT_WOOD),
        Shape(
            "box",
            (tray_center + tray_depth / 2 - _PANEL / 2, 0.0, tray_floor + tray_height / 2),
            (_PANEL, tray_width, tray_height),
            _LIGHT_WOOD,
        ),
    ]
    handle = [Shape("capsule_y", HANDLE_CENTER, (BAR_RADIUS, _BAR_LENGTH), _STEEL)]

    # The parts that are on both sides.
    for side in (-1.0, 1.0):
        body.append(
            Shape(
                "box",
                (body_center, side * (width - _PANEL) / 2, height / 2),
                (body_depth, _PANEL, height - 2 * _PANEL),
                _WOOD,
            )
        )
        drawer.append(
            Shape(
                "box",
                (tray_center, side * (tray_width - _PANEL) / 2, tray_floor + tray_height / 2),
                (tray_depth, _PANEL, tray_height),
                _LIGHT_WOOD,
            )
        )
        handle.append(Shape("box", (bar_x + post / 2, side * _BAR_LENGTH / 2, bar_z), (post, 0.012, 0.012), _STEEL))

    return {
        "body": _Link(4.0, {"cabinet": tuple(body)}),
        "drawer": _Link(0.8, {"drawer": tuple(drawer), "handle": tuple(handle)}),
    }


def _valve_links() -> dict[str, _Link]:
    stand = (
        Shape("box", (0.0, 0.0, 0.015), (0.14, 0.14, 0.03), _STEEL),
        Shape("capsule_z", (0.0, 0.0, 0.06), (0.02, 0.06), _STEEL),
    )
    arms = (
        Shape("box", (0.0, 0.0, _ARM_HEIGHT), (2 * _ARM_LENGTH, _ARM_WIDTH, _ARM_WIDTH), _RED),
        Shape("box", (0.0, 0.0, _ARM_HEIGHT), (_ARM_WIDTH, 2 * _ARM_LENGTH, _ARM_WIDTH), _RED),
        Shape("capsule_z", (0.0, 0.0, _ARM_HEIGHT - 0.005), (0.022, 0.01), _RED),
    )
    knob = Shape("capsule_z", (KNOB_CENTER[0], 0.0, 0.16), (KNOB_RADIUS, 0.045), _STEEL)
    return {
        "stand": _Link(2.0, {"stand": stand}),
        "valve": _Link(0.4, {"valve": arms, "handle": (knob,)}),
    }


def _author(name: str, links: dict[str, _Link], joint: Joint, path: Path) -> None:
    root = f"/{name}"
    stage = new_articulation(root)

    for link_name, link in links.items():
        prim = UsdGeom.Xform.Define(stage, f"{root}/{link_name}").GetPrim()
        UsdPhysics.RigidBodyAPI.Apply(prim)
        UsdPhysics.MassAPI.Apply(prim).CreateMassAttr(link.mass)
        for label, shapes in link.shapes.items():
            _author_part(stage, f"{root}/{link_name}/{label}", label, shapes)

    UsdGeom.Scope.Define(stage, f"{root}/joints")
    author_anchor(stage, f"{root}/joints/root_joint", f"{root}/{joint.parent}")
    author_joint(stage, root, joint, stiffness=0.0, damping=0.0)
    _author_soft_stop(stage.GetPrimAtPath(f"{root}/joints/{joint.name}"))
    save(stage, path)


def _author_soft_stop(joint: Usd.Prim) -> None:
    """Let a joint come to rest at its limits on Newton too, whose limits bounce by default."""
    joint.AddAppliedSchema("MjcJointAPI")
    attribute = joint.CreateAttribute("mjc:solreflimit", Sdf.ValueTypeNames.DoubleArray, custom=False)
    attribute.Set(Vt.DoubleArray(_LIMIT_SOLREF))


def _author_part(stage: Usd.Stage, path: str, label: str, shapes: tuple[Shape, ...]) -> None:
    """Write shapes of one semantic class below a prim that carries it."""
    prim = UsdGeom.Xform.Define(stage, path).GetPrim()
    UsdSemantics.LabelsAPI.Apply(prim, "class").CreateLabelsAttr([label])
    for index, shape in enumerate(shapes):
        author_shape(stage, f"{path}/shape_{index}", shape)


def author_cabinet(path: Path) -> None:
    """Write a cabinet with one drawer, semantic classes ``cabinet``, ``drawer`` and ``handle``.

    Args:
        path: Where to write; its folder is made when absent and an existing file is replaced.
    """
    _author("cabinet", _cabinet_links(), _DRAWER, path)


def author_valve(path: Path) -> None:
    """Write a valve with four arms and a knob on one of them, classes ``stand``, ``valve`` and ``handle``.

    Args:
        path: Where to write; its folder is made when absent and an existing file is replaced.
    """
    _author("valve", _valve_links(), _VALVE, path)


if __name__ == "__main__":
    for author, file in ((author_cabinet, CABINET_USD), (author_valve, VALVE_USD)):
        author(file)
        print(file)
