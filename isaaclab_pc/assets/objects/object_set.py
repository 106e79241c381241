# SPDX-License-Identifier: BSD-3-Clause
"""A rigid object that is another one in each environment. Loads Isaac Lab."""

import isaaclab.sim as sim_utils
import numpy as np
from isaaclab.assets import RigidObjectCfg
from isaaclab.sim.schemas import UsdPhysicsCollisionCfg
from numpy.typing import NDArray

from isaaclab_pc.assets.objects.sets import usd_files
from isaaclab_pc.assets.physics_properties import free_body_properties, patch_contacts, patch_friction
from isaaclab_pc.assets.primitives import Vector


def object_set_cfg(
    objects: str,
    prim_path: str = "{ENV_REGEX_NS}/Object",
    *,
    padded: bool = False,
    pos: Vector = (0.5, 0.0, 0.1),
    label: str = "object",
) -> RigidObjectCfg:
    """Return an object of a set, dealt out to the environments as evenly as may be: :func:`dealt_objects` tells how.

    Args:
        objects: Name or folder of the set, as :func:`~isaaclab_pc.assets.objects.sets.load_set` takes it.
        prim_path: Where it is spawned.
        padded: Whether all have as many parts, as Newton needs it; with MuJoCo's own contacts
            (``use_mujoco_contacts``) all environments would collide with the first one's object.
        pos: Its centre of mass in the environment's frame before the first reset [m].
        label: Its semantic class.
    """
    return RigidObjectCfg(
        prim_path=prim_path,
        spawn=sim_utils.MultiUsdFileCfg(
            usd_path=[str(file) for file in usd_files(objects, padded=padded)],
            rigid_props=free_body_properties(),
            collision_props=[UsdPhysicsCollisionCfg(), patch_contacts()],
            physics_material=patch_friction(1.0),
            semantic_tags=[("class", label)],
        ),
        init_state=RigidObjectCfg.InitialStateCfg(pos=pos),
    )


def dealt_objects() -> NDArray[np.int64]:
    """Return the place in the set of each environment's object, shape (N,), once the scene is built.

    It holds for a scene in which nothing else differs between environments.
    """
    # Late: it loads USD, which a configuration must not.
    from isaaclab.sim import SimulationContext

    simulation = SimulationContext.instance()
    assert simulation is not None
    plan = simulation.get_clone_plan()
    assert plan is not None
    return np.asarray(plan.topology.world_prototype_layout).astype(np.int64)
