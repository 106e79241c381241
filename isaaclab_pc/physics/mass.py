# SPDX-License-Identifier: BSD-3-Clause
"""Masses of objects in the running simulation, on every backend.

Isaac Lab's setters tell MuJoCo Warp to compute every constant of every environment again: 445 kernels, outside of the
CUDA graph, and five reads of the device, for each step in which a mass changes. Of an object that is not jointed to
anything, all these constants are the mass to a power of 1 or -1, so they are scaled with it, where it changed.
"""

from collections.abc import Sequence
from typing import Any

import torch
import warp as wp

from isaaclab_pc.physics.contacts import mujoco_warp_solver

_FREE = 0
"""Value of mujoco.mjtJoint."""


class ObjectMasses:
    """Writes the masses of some objects, their inertias, and what a solver derives from these."""

    def __init__(self, assets: Sequence[Any], physics: Any) -> None:
        """Read what initialized rigid objects, A, start with; ``physics`` is the running ``sim.physics``."""
        self._assets = list(assets)
        self._start = [(asset.data.body_mass.torch.clone(), asset.data.body_inertia.torch.clone()) for asset in assets]
        self._constants = _find_constants(self._assets, physics)

    def scale(self, env_ids: torch.Tensor, factor: torch.Tensor) -> None:
        """Set masses and inertias in environments (M,) to multiples (M, A) of those that the objects started with."""
        if self._constants is None:
            self._write(env_ids, factor)
            return

        from isaaclab_newton.physics import NewtonManager
        from newton import ModelFlags

        # What somebody else has changed in this step stays noted. That shapes changed makes Newton forget the contacts
        # that it has prepared with the old constants, and nothing else that would take time.
        noted = set(NewtonManager._model_changes)
        self._write(env_ids, factor)
        NewtonManager._model_changes = noted
        NewtonManager.add_model_change(ModelFlags.SHAPE_PROPERTIES)
        self._constants.scale(env_ids, factor)

    def _write(self, env_ids: torch.Tensor, factor: torch.Tensor) -> None:
        ids = env_ids.int()
        for asset, (mass, inertia), of_asset in zip(self._assets, self._start, factor.unbind(1), strict=True):
            asset.set_masses_index(masses=mass[env_ids] * of_asset[:, None], env_ids=ids)
            asset.set_inertias_index(inertias=inertia[env_ids] * of_asset[:, None, None], env_ids=ids)


class _Constants:
    """Quantities that MuJoCo Warp derives from the masses of free bodies without children."""

    def __init__(self, model: Any, bodies: Sequence[int]) -> None:
        """Take views of the arrays of MuJoCo Warp's model, a row an environment, and remember those of A bodies."""
        device = wp.device_to_torch(model.body_mass.device)
        dof = wp.to_torch(model.body_dofadr).tolist()
        self._bodies = torch.tensor(bodies, device=device)
        dofs = [list(range(dof[body], dof[body] + 6)) for body in bodies]
        self._dofs = torch.tensor(dofs, device=device)

        self._mass, self._subtree, self._inertia, self._weight = (
            wp.to_torch(array)
            for array in (model.body_mass, model.body_subtreemass, model.body_inertia, model.body_invweight0)
        )
        self._dof_weight = wp.to_torch(model.dof_invweight0)
        self._mean_inertia = wp.to_torch(model.stat.meaninertia)

        self._start_mass = self._mass[:, self._bodies]
        self._start_inertia = self._inertia[:, self._bodies]
        self._start_weight = self._weight[:, self._bodies]
        self._start_dof_weight = self._dof_weight[:, self._dofs]
        self._factor = torch.ones_like(self._start_mass)

        # The part of these bodies in the mean diagonal of the mass matrix: six degrees of freedom about their origins.
        offset = wp.to_torch(model.body_ipos)[:, self._bodies]
        about_origin = self._start_inertia.sum(-1) + 2.0 * self._start_mass * offset.square().sum(-1)
        self._part = (3.0 * self._start_mass + about_origin) / model.nv

    def scale(self, env_ids: torch.Tensor, factor: torch.Tensor) -> None:
        """Set the constants in environments (M,) to what they are at multiples (M, A) of the starting masses."""
        change = factor - self._factor[env_ids]
        self._factor[env_ids] = factor
        # Other bodies have a part in these two, and somebody else may have changed it.
        self._subtree[env_ids, 0] += (self._start_mass[env_ids] * change).sum(1)
        self._mean_inertia[env_ids] += (self._part[env_ids] * change).sum(1)

        rows = env_ids[:, None]
        self._mass[rows, self._bodies] = self._start_mass[env_ids] * factor
        self._subtree[rows, self._bodies] = self._start_mass[env_ids] * factor
        self._inertia[rows, self._bodies] = self._start_inertia[env_ids] * factor[..., None]
        self._weight[rows, self._bodies] = self._start_weight[env_ids] / factor[..., None]
        self._dof_weight[rows[..., None], self._dofs] = self._start_dof_weight[env_ids] / factor[..., None]


def _find_constants(assets: Sequence[Any], physics: Any) -> _Constants | None:
    """Return the solver's constants of some objects; None if Isaac Lab's setters have to do."""
    from isaaclab_newton.physics import NewtonManager

    solver = mujoco_warp_solver(physics)
    if solver is None or solver.use_mujoco_cpu or solver.mjw_model.ntendon or solver.mjw_model.nflex:
        return None

    model = solver.mjw_model
    labels = list(NewtonManager.get_model().body_label)
    of_newton = solver.mjc_body_to_newton.numpy()[0].tolist()
    parent = wp.to_torch(model.body_parentid).tolist()
    joint = wp.to_torch(model.body_jntadr).tolist()
    kind = wp.to_torch(model.jnt_type).tolist()

    bodies = []
    for asset in assets:
        names = asset.root_view.link_labels
        body = of_newton.index(labels.index(names[0]))
        is_free = joint[body] >= 0 and kind[joint[body]] == _FREE
        if len(names) > 1 or not is_free or parent[body] != 0 or body in parent:
            return None
        bodies.append(body)
    return _Constants(model, bodies)
