# SPDX-License-Identifier: BSD-3-Clause
"""Friction of an asset's shapes in the running simulation, on every backend.

Isaac Lab's event term ``randomize_rigid_body_material`` draws its values from torch's global generator; this writes
given values through the same views.
"""

from typing import Any

import torch
import warp as wp


class ShapeFriction:
    """Writes the friction of one asset's shapes."""

    def __init__(self, asset: Any, physics: Any) -> None:
        """Read the friction that the shapes of an initialized asset start with; ``physics`` is ``sim.physics``."""
        from isaaclab.assets import BaseArticulation
        from isaaclab_newton.physics import NewtonCfg
        from isaaclab_ov.physics import OvPhysxCfg

        self._view: Any = asset.root_view
        self._is_newton = isinstance(physics, NewtonCfg)
        self._binding = ""
        if isinstance(physics, OvPhysxCfg):
            from isaaclab_ov import tensor_types

            if isinstance(asset, BaseArticulation):
                self._binding = tensor_types.SHAPE_FRICTION_AND_RESTITUTION
            else:
                self._binding = tensor_types.RIGID_BODY_SHAPE_FRICTION_AND_RESTITUTION
        self.start = self._newton_friction().clone() if self._is_newton else self._materials()[..., :2].clone()
        """The solver's friction of each shape then, shape (N, shapes); on PhysX static and dynamic (N, shapes, 2)."""

    def scale(self, env_ids: torch.Tensor, factor: torch.Tensor) -> None:
        """Set static and dynamic friction of environments (M,) to multiples (M,) of their first values."""
        rows = env_ids.to(self.start.device)
        start = self.start[rows]
        friction = start * factor.to(start.device).view(-1, *[1] * (start.dim() - 1))
        if self._is_newton:
            from isaaclab_newton.physics import NewtonManager
            from newton import ModelFlags

            self._newton_friction()[rows] = friction
            NewtonManager.add_model_change(ModelFlags.SHAPE_PROPERTIES)
            return

        materials = self._materials()
        materials[rows, :, :2] = friction

        # PhysX wants the whole buffer, whichever rows are written.
        buffer = wp.from_torch(materials.contiguous(), dtype=wp.float32)
        indices = wp.from_torch(rows.int())
        if self._binding:
            self._view.set_attribute(self._binding, buffer, indices=indices)
        else:
            self._view.set_material_properties(buffer, indices)

    def _newton_friction(self) -> torch.Tensor:
        from isaaclab_newton.physics import NewtonManager

        return wp.to_torch(self._view.get_attribute("shape_material_mu", NewtonManager.get_model())[:, 0])

    def _materials(self) -> torch.Tensor:
        """Return static friction, dynamic friction and restitution of each shape, shape (N, shapes, 3)."""
        values = self._view.get_attribute(self._binding) if self._binding else self._view.get_material_properties()
        return wp.to_torch(values)
