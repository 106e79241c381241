# SPDX-License-Identifier: BSD-3-Clause
"""Boxes that rest on boxes, on MuJoCo Warp."""

from typing import Any

from isaaclab_newton.physics.mjwarp_manager import NewtonMJWarpManager
from mujoco_warp import DisableBit, GeomType
from mujoco_warp._src import collision_primitive


class NewtonBoxContactManager(NewtonMJWarpManager):
    """Isaac Lab's manager of MuJoCo Warp, with the contacts of two boxes from their own geometry.

    MuJoCo Warp's general convex collision keeps at most 4 points of two touching faces. Where a cube is turned against
    what it stands on, those are 8 corners, and others are kept from step to step: stacked cubes rocked at 0.3 rad/s and
    sank into one another. Its collision of boxes keeps all 8, at no more cost; neither Isaac Lab nor Newton passes on
    the flag for it. Not all tasks gain: a long peg fell through the wall that it lay on, and pushed cubes turned away
    more often. Isaac Lab reads the backend off the start of this class's name.
    """

    @classmethod
    def _create_solver(cls, model: Any, solver_cfg: Any) -> Any:
        solver = super()._create_solver(model, solver_cfg)
        # Before Isaac Lab records the solver's CUDA graph.
        solver.mjw_model.opt.disableflags |= int(DisableBit.NATIVECCD)
        return solver

    @classmethod
    def close(cls) -> None:
        """Let the next simulation of this process collide boxes its own way.

        MuJoCo Warp keeps the pairs of every model that it has stepped: boxes of the next one would get contacts from
        both kinds of collision.
        """
        super().close()
        pairs = collision_primitive._PRIMITIVE_COLLISION_TYPES
        boxes = (GeomType.BOX, GeomType.BOX)
        if boxes in pairs:
            index = pairs.index(boxes)
            del pairs[index]
            del collision_primitive._PRIMITIVE_COLLISION_FUNC[index]
