# SPDX-License-Identifier: BSD-3-Clause
"""Write the USD files of a cabinet with a drawer and of a valve: ``python -m tools.assets.author_articulated``.

Both are made of boxes and capsules that are visual and collision shapes at once, and stand on the plane z = 0 of their
root frame. All links share that frame at joint position 0. The settings of PhysX and Newton come from the spawn
configs in ``isaaclab_pc/assets/articulated/cfg.py``.
"""

# USD's type stubs say that every call returns None.
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from pxr import Sdf, Usd, UsdGeom, UsdPhysics, UsdSemantics, Vt

from isaaclab_pc.assets.articulated import Shape, Shapes
from isaaclab_pc.assets.articulated.cabinets import DRAWER_AXIS, Cabinet
from isaaclab_pc.assets.articulated.cfg import CABINET_USD, VALVE_USD
from isaaclab_pc.assets.articulated.valves import Valve
from tools.assets.author import author_anchor, author_joint, author_shape, new_articulation, save
from tools.assets.kinematics import Joint

_LARGEST_EFFORT = 100.0
"""Limit of what drives of either joint may give [N or N*m]; both have none."""

_DRAWER = Joint(
    "drawer_joint",
    "body",
    "drawer",
    axis=DRAWER_AXIS,
    prismatic=True,
    lower=0.0,
    upper=Cabinet().travel,
    velocity=2.0,
    effort=_LARGEST_EFFORT,
)

KNOB_RANGE = math.radians(150.0)
"""How far the valve turns to either side [rad]."""

_VALVE = Joint(
    "valve_joint",
    "stand",
    "valve",
    axis=(0.0, 0.0, 1.0),
    lower=-KNOB_RANGE,
    upper=KNOB_RANGE,
    velocity=20.0,
    effort=_LARGEST_EFFORT,
)

_LIMIT_SOLREF = (0.02, 1.0)
"""Time constant [s] and damping ratio [1] of the joint limits on Newton: MuJoCo's ``solreflimit`` at its default."""


@dataclass(frozen=True)
class _Link:
    """A rigid body."""

    mass: float
    """Mass, which the solvers spread evenly over the shapes [kg]."""

    shapes: dict[str, tuple[Shape, ...]]
    """Shapes by semantic class."""


def _links(shapes: Shapes, masses: dict[str, float]) -> dict[str, _Link]:
    """Return links by name, of shapes by the path ``<link>/<semantic class>``."""
    links = {name: _Link(mass, {}) for name, mass in masses.items()}
    for path, each in shapes.items():
        link, label = path.split("/")
        links[link].shapes[label] = tuple(each)
    return links


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
    _author("cabinet", _links(Cabinet().shapes(), {"body": 4.0, "drawer": 0.8}), _DRAWER, path)


def author_valve(path: Path) -> None:
    """Write a valve with four arms and a knob on one of them, classes ``stand``, ``valve`` and ``handle``.

    Args:
        path: Where to write; its folder is made when absent and an existing file is replaced.
    """
    _author("valve", _links(Valve().shapes(), {"stand": 2.0, "valve": 0.4}), _VALVE, path)


if __name__ == "__main__":
    for author, file in ((author_cabinet, CABINET_USD), (author_valve, VALVE_USD)):
        author(file)
        print(file)
