# SPDX-License-Identifier: BSD-3-Clause
"""Configurations of the primitives around the robot: ground, table, cube, target markers.

Each takes the prim path it is spawned at, usually ``{ENV_REGEX_NS}/Name``. Every object carries a semantic
``class`` so that segmentation tells them apart: ``ground``, ``table``, ``cube``, ``target`` (and ``robot``).
"""

import isaaclab.sim as sim_utils
from isaaclab.assets import AssetBaseCfg, RigidObjectCfg
from isaaclab.sim.schemas import MassCfg, UsdPhysicsCollisionCfg

from isaaclab_pc.assets.physics_properties import (
    free_body_properties,
    friction,
    kinematic_body_properties,
    patch_contacts,
    patch_friction,
)

Vector = tuple[float, float, float]
"""x, y and z."""


def _static_box(prim_path: str, size: Vector, top: Vector, label: str, color: Vector) -> AssetBaseCfg:
    """Return a box that never moves; ``top`` is the centre of its upper side [m]."""
    x, y, z = top
    return AssetBaseCfg(
        prim_path=prim_path,
        spawn=sim_utils.CuboidCfg(
            size=size,
            collision_props=UsdPhysicsCollisionCfg(),
            physics_material=friction(1.0),
            visual_material=sim_utils.PreviewSurfaceCfg(diffuse_color=color),
            semantic_tags=[("class", label)],
        ),
        init_state=AssetBaseCfg.InitialStateCfg(pos=(x, y, z - size[2] / 2)),
    )


def ground_cfg(prim_path: str = "/World/Ground", *, height: float = 0.0, edge: float = 200.0) -> AssetBaseCfg:
    """Return a large static box as the ground; nothing is downloaded, unlike Isaac Lab's ground plane.

    Its top is at ``height`` in the world [m]; its sides, of length ``edge`` [m], must reach under every environment.
    """
    return _static_box(prim_path, (edge, edge, 1.0), (0.0, 0.0, height), "ground", (0.35, 0.35, 0.35))


def table_cfg(
    prim_path: str = "{ENV_REGEX_NS}/Table", *, size: Vector = (0.7, 1.0, 0.4), top: Vector = (0.5, 0.0, 0.0)
) -> AssetBaseCfg:
    """Return a static box as a table: edge lengths, and centre of its top in the environment's frame [m]."""
    return _static_box(prim_path, size, top, "table", (0.55, 0.42, 0.30))


def cube_cfg(
    prim_path: str = "{ENV_REGEX_NS}/Cube",
    *,
    edge: float = 0.04,
    mass: float = 0.1,
    pos: Vector = (0.5, 0.0, 0.02),
    label: str = "cube",
    color: Vector = (0.10, 0.35, 0.80),
) -> RigidObjectCfg:
    """Return a cube to be grasped, of a semantic class ``label``.

    Its ``edge`` is in [m], and the gripper opens 0.08 m; its ``mass`` in [kg]. ``pos`` is its centre in the
    environment's frame after a reset [m], ``color`` its red, green and blue from 0 to 1.
    """
    return RigidObjectCfg(
        prim_path=prim_path,
        spawn=sim_utils.CuboidCfg(
            size=(edge, edge, edge),
            rigid_props=free_body_properties(),
            mass_props=MassCfg(mass=mass),
            collision_props=[UsdPhysicsCollisionCfg(), patch_contacts()],
            physics_material=patch_friction(1.0),
            visual_material=sim_utils.PreviewSurfaceCfg(diffuse_color=color),
            semantic_tags=[("class", label)],
        ),
        init_state=RigidObjectCfg.InitialStateCfg(pos=pos),
    )


def _marker(prim_path: str, spawn: sim_utils.ShapeCfg, pos: Vector) -> RigidObjectCfg:
    spawn.rigid_props = kinematic_body_properties()
    spawn.mass_props = MassCfg(mass=0.1)
    spawn.visual_material = sim_utils.PreviewSurfaceCfg(diffuse_color=(0.85, 0.10, 0.10))
    spawn.semantic_tags = [("class", "target")]
    return RigidObjectCfg(prim_path=prim_path, spawn=spawn, init_state=RigidObjectCfg.InitialStateCfg(pos=pos))


def target_cfg(
    prim_path: str = "{ENV_REGEX_NS}/Target", *, radius: float = 0.03, pos: Vector = (0.5, 0.0, 0.3)
) -> RigidObjectCfg:
    """Return a sphere that is seen and never touched: a kinematic body without a collider.

    Its centre after a reset is ``pos`` in the environment's frame, its radius is ``radius`` [m]. Move it by writing its
    pose only; PhysX complains about velocities written to a kinematic body.
    """
    return _marker(prim_path, sim_utils.SphereCfg(radius=radius), pos)


def region_cfg(
    prim_path: str = "{ENV_REGEX_NS}/Target",
    *,
    radius: float = 0.1,
    thickness: float = 0.01,
    pos: Vector = (0.5, 0.0, 0.0),
) -> RigidObjectCfg:
    """Return a flat disc that lies on the table, is seen and never touched, as :func:`target_cfg`.

    Its origin, ``pos`` in the environment's frame after a reset, is on the table below its centre; its upper side is
    ``thickness`` above the table, so that a cloud cropped there keeps it. All in [m].
    """
    x, y, z = pos
    centre = (x, y, z + thickness / 2)
    return _marker(prim_path, sim_utils.CylinderCfg(radius=radius, height=thickness, axis="Z"), centre)
