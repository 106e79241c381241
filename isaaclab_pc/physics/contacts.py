# SPDX-License-Identifier: BSD-3-Clause
"""How full the solver's contact buffers are, and how large they should be.

A solver that runs out of room drops contacts and goes on. MuJoCo Warp (Newton) has two buffers: one of contacts, which
all environments share, and one of constraint rows in every environment. It counts what it needed even where that is
more than it has, and keeps a flag per environment once something was dropped. PhysX gives no such reading: there, what
it prints is searched (:func:`isaaclab_pc.scaling.classify.contact_overflows`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    import torch

__all__ = [
    "HEADROOM",
    "BufferUsage",
    "ContactMonitor",
    "ContactUsage",
    "contact_buffer_bytes",
    "grown",
    "monitor_contacts",
    "predicted_contact_buffer_bytes",
]

HEADROOM = 3.0
"""Room to have over the high-water mark of a fresh policy, since a trained one makes more contacts: in the lift task on
Newton a grasp of the cube takes 2.7 times the contacts and 2.8 times the constraint rows."""
_GRANULE = 8
"""Capacities are multiples of this."""


class BufferUsage(TypedDict):
    """One buffer since the start of the simulation."""

    used: int
    """Most that was needed at once; above `capacity` where not all of it had room."""
    capacity: int
    """Room there is."""
    overflowed: bool
    """Whether something was dropped."""


class ContactUsage(TypedDict):
    """Both buffers of MuJoCo Warp; holds plain numbers, so it goes through JSON."""

    num_envs: int
    """Environments that share the contacts."""
    contacts: BufferUsage
    """Contacts of all environments together: contact points, or pairs of near shapes where these are more, since both
    need a place in a buffer of this capacity."""
    constraints: BufferUsage
    """Constraint rows of the environment that needed the most; each environment has this capacity."""
    share: float
    """The fuller buffer's `used` in `capacity`; at least 1 once something was dropped."""


class ContactMonitor:
    """Keeps the high-water marks of MuJoCo Warp's buffers on the device."""

    def __init__(self, data: Any) -> None:
        """Start at zero.

        Args:
            data: The solver's ``mujoco_warp.Data``; its arrays are read in place.
        """
        import torch
        import warp as wp
        from mujoco_warp import OverflowType

        self._num_envs: int = data.nworld
        self._capacities: tuple[int, int] = (data.naconmax, data.njmax)
        self._points, self._pairs = wp.to_torch(data.nacon), wp.to_torch(data.ncollision)
        self._rows, self._flags = wp.to_torch(data.nefc), wp.to_torch(data.overflow)
        self._most_contacts, self._most_rows = torch.zeros_like(self._points), torch.zeros_like(self._rows)
        self._contact_flags = int(OverflowType.BROADPHASE | OverflowType.NARROWPHASE | OverflowType.CCD)
        self._row_flags = int(OverflowType.NEFC | OverflowType.NJMAX_NNZ)

    def update(self) -> None:
        """Take over the marks of the solver's last step, without waiting for the device.

        What the steps between two calls needed is not seen (once per environment step found 173 contacts where the
        most was 176, in 16 environments that grasp), but the solver's own flags keep whether any of them overflowed.
        """
        import torch

        torch.maximum(self._most_contacts, self._points, out=self._most_contacts)
        torch.maximum(self._most_contacts, self._pairs, out=self._most_contacts)
        torch.maximum(self._most_rows, self._rows, out=self._most_rows)

    def share(self) -> torch.Tensor:
        """Return `ContactUsage.share` as a tensor on the device, shape (), float32."""
        contacts, rows = (max(capacity, 1) for capacity in self._capacities)
        share = (self._most_contacts[0] / contacts).maximum(self._most_rows.max() / rows)
        dropped = ((self._flags & (self._contact_flags | self._row_flags)) != 0).any()
        return share.clamp(min=dropped.float())

    def usage(self) -> ContactUsage:
        """Read the marks; this waits for the device.

        Returns:
            What was used of both buffers since the start.
        """
        flags = [bool(((self._flags & mask) != 0).any()) for mask in (self._contact_flags, self._row_flags)]
        used = [int(self._most_contacts[0]), int(self._most_rows.max())]
        contacts, constraints = (
            BufferUsage(used=most, capacity=capacity, overflowed=flag or most > capacity)
            for most, capacity, flag in zip(used, self._capacities, flags, strict=True)
        )
        return ContactUsage(
            num_envs=self._num_envs,
            contacts=contacts,
            constraints=constraints,
            share=round(float(self.share()), 4),
        )


def monitor_contacts(physics: Any) -> ContactMonitor | None:
    """Watch the simulation that runs in this process.

    Args:
        physics: Its physics config, ``cfg.sim.physics``.

    Returns:
        The monitor; None where the solver gives no reading (PhysX, and Newton's other solvers).
    """
    data = _solver_data(physics)
    return None if data is None else ContactMonitor(data)


def contact_buffer_bytes(physics: Any) -> int:
    """Measure the solver's buffers of contacts and constraint rows in this process.

    Args:
        physics: As for :func:`monitor_contacts`.

    Returns:
        Their memory [bytes]; 0 where the solver gives no reading.
    """
    data = _solver_data(physics)
    return 0 if data is None else _buffers(data)


def predicted_contact_buffer_bytes(num_contacts: int, num_rows: int, num_dofs: int) -> float:
    """Work out MuJoCo Warp's buffers, by letting it make them for two worlds of as many degrees of freedom.

    Args:
        num_contacts: Contacts that have room, per environment (``nconmax``).
        num_rows: Constraint rows that have room in an environment (``njmax``).
        num_dofs: Degrees of freedom of an environment: the rows' Jacobian has a column for each.

    Returns:
        Memory of one environment [bytes].
    """
    import mujoco
    import mujoco_warp
    import warp as wp

    worlds = 2
    link = '<body><joint type="hinge"/><geom size=".1"/>'
    chain = link * num_dofs + "</body>" * num_dofs
    model: Any = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{chain}</worldbody></mujoco>")  # pyright: ignore[reportAttributeAccessIssue]
    with wp.ScopedDevice("cpu"):
        data = mujoco_warp.make_data(model, nworld=worlds, nconmax=num_contacts, njmax=num_rows)
    return _buffers(data) / worlds


def _solver_data(physics: Any) -> Any:
    """Return the ``mujoco_warp.Data`` of this process, or None."""
    from isaaclab_newton.physics import NewtonCfg, NewtonManager

    # Isaac Lab has no public way to the solver.
    return getattr(NewtonManager._solver, "mjw_data", None) if isinstance(physics, NewtonCfg) else None


def _buffers(data: Any) -> int:
    """Return the memory of contacts and constraint rows [bytes]."""
    from isaaclab_pc.tensor_bytes import tensor_bytes

    return tensor_bytes(vars(data.contact), vars(data.efc))


def grown(usage: ContactUsage, headroom: float = HEADROOM) -> dict[str, int]:
    """Size the buffers from what was used.

    A buffer that overflowed is at least doubled: contacts that were dropped, and the rows and further contacts that
    they would have led to, are not in the marks. A buffer is never made smaller than it is: a short try with a fresh
    policy says too little for that.

    Args:
        usage: What a simulation used.
        headroom: Room to have, as a multiple of the high-water mark.

    Returns:
        The settings of ``physics`` that have to change, per environment and so for any number of them:
        ``contacts``, ``constraints``, both or none.
    """
    changes = {}
    for name, users in (("contacts", usage["num_envs"]), ("constraints", 1)):
        buffer: BufferUsage = usage[name]
        needed = max(headroom * buffer["used"], 2 * buffer["capacity"] if buffer["overflowed"] else 0)
        if needed > buffer["capacity"]:
            changes[name] = _GRANULE * math.ceil(needed / users / _GRANULE)
    return changes
