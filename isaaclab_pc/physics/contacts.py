# SPDX-License-Identifier: BSD-3-Clause
"""How full the solver's contact buffers are, and how large they should be.

A solver with full buffers drops contacts and goes on. MuJoCo Warp (Newton) has two buffers: one of contacts, which
all environments share, and one of constraint rows in every environment. It counts what it needed even where that is
more than it has, and sets a flag of the environment once something was dropped. PhysX has no such counters: there, its
printed messages are searched (:func:`isaaclab_pc.num_envs.classify.contact_overflow`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypedDict

from isaaclab_pc.utils.json_record import Count, NonNegative, Size

if TYPE_CHECKING:
    import torch

HEADROOM = 3.0
"""Capacity as a multiple of what an untrained policy needed at most, since a trained one makes more contacts: in the
lift task on Newton a grasp of the cube takes 2.7 times the contacts and 2.8 times the constraint rows."""

_GRANULE = 8
"""Capacities are multiples of this."""


class BufferUsage(TypedDict):
    """One buffer since the start of the simulation."""

    used: Count
    """Most entries that were needed at once; more than `capacity` where some did not fit."""
    capacity: Count
    """Number of entries that the buffer holds."""
    overflowed: bool
    """Whether entries were dropped."""


class ContactUsage(TypedDict):
    """Both buffers of MuJoCo Warp, as plain numbers that can be written as JSON."""

    num_envs: Size
    """Environments that share the contacts."""
    contacts: BufferUsage
    """Contacts of all environments together: contact points, or pairs of shapes that are close where these are more,
    since both need an entry in a buffer of this capacity."""
    constraints: BufferUsage
    """Constraint rows of the environment that needed the most; each environment has this capacity."""
    share: NonNegative
    """`used` over `capacity` of the fuller buffer; at least 1 once something was dropped."""


class ContactMonitor:
    """Keeps the largest numbers of contacts and constraint rows that MuJoCo Warp needed, on the device."""

    def __init__(self, data: Any) -> None:
        """Start at zero; the arrays of the solver's ``mujoco_warp.Data`` are read in place."""
        import torch
        import warp as wp
        from mujoco_warp import OverflowType

        self._num_envs: int = data.nworld
        self._max_contacts: int = data.naconmax
        self._max_rows: int = data.njmax

        self._points = wp.to_torch(data.nacon)
        self._pairs = wp.to_torch(data.ncollision)
        self._rows = wp.to_torch(data.nefc)
        self._most_contacts = torch.zeros_like(self._points)
        self._most_rows = torch.zeros_like(self._rows)
        self._shares = torch.zeros(self._num_envs, device=self._rows.device)

        self._flags = wp.to_torch(data.overflow)
        self._contact_flags = int(OverflowType.BROADPHASE | OverflowType.NARROWPHASE | OverflowType.CCD)
        self._row_flags = int(OverflowType.NEFC | OverflowType.NJMAX_NNZ)

    def update(self) -> None:
        """Take the solver's last step into account, without waiting for the device.

        The numbers of the steps between two calls are missed: 173 contacts were found where there were 176, in 16
        environments that grasp. An overflow is never missed, since the solver keeps its flags.
        """
        from isaaclab_pc.physics.contact_kernels import note_usage
        from isaaclab_pc.tensors.warp_stream import launch_rows

        flags = self._contact_flags | self._row_flags
        capacities = max(self._max_contacts, 1), max(self._max_rows, 1)
        counts = [self._points, self._pairs, self._rows, self._flags]
        launch_rows(note_usage, *counts, flags, *capacities, self._most_contacts, self._shares, self._most_rows)

    def share(self) -> torch.Tensor:
        """Return `ContactUsage.share` as a tensor on the device, shape (), float32."""
        return self._shares.amax()

    def usage(self) -> ContactUsage:
        """Return the use of both buffers since the start; waits for the device."""
        return ContactUsage(
            num_envs=self._num_envs,
            contacts=self._buffer_usage(int(self._most_contacts[0]), self._max_contacts, self._contact_flags),
            constraints=self._buffer_usage(int(self._most_rows.max()), self._max_rows, self._row_flags),
            share=round(float(self.share()), 4),
        )

    def _buffer_usage(self, used: int, capacity: int, flags: int) -> BufferUsage:
        overflowed = bool(((self._flags & flags) != 0).any())
        return BufferUsage(used=used, capacity=capacity, overflowed=overflowed or used > capacity)


def monitor_contacts(physics: Any) -> ContactMonitor | None:
    """Return a monitor of this process's simulation; its solver no longer prints its overflow flags.

    It is None where the solver has no such counters (PhysX, and Newton's other solvers).
    """
    solver = mujoco_warp_solver(physics)
    if solver is None:
        return None

    # It prints a line for each solve that stops at its iterations: millions in a training.
    solver.mjw_model.opt.warn_overflow = False
    return ContactMonitor(solver.mjw_data)


def contact_buffer_bytes(physics: Any) -> int:
    """Return the memory of the solver's contacts and constraint rows in this process [bytes]; 0 but for MuJoCo Warp."""
    solver = mujoco_warp_solver(physics)
    if solver is None:
        return 0

    from isaaclab_pc.tensors.tensor_bytes import tensor_bytes

    return tensor_bytes(vars(solver.mjw_data.contact), vars(solver.mjw_data.efc))


def mujoco_warp_solver(physics: Any) -> Any:
    """Return Newton's solver of this process where it is MuJoCo Warp, or None."""
    from isaaclab_newton.physics import NewtonCfg, NewtonManager

    # Isaac Lab has no public way to the solver.
    solver = NewtonManager._solver if isinstance(physics, NewtonCfg) else None
    return solver if getattr(solver, "mjw_data", None) is not None else None


def grown(usage: ContactUsage, headroom: float = HEADROOM) -> dict[str, int]:
    """Return larger buffers where those of a simulation have overflowed or have too little room left.

    A buffer that overflowed is at least doubled: dropped contacts, and rows and contacts that they would have caused,
    are not in the counts. No buffer gets smaller: a short run of an untrained policy says too little for that.
    ``headroom`` is the capacity to have, as a multiple of what was used.

    Returns:
        The settings of ``physics`` that change, ``contacts`` and ``constraints``. They count per environment, so they
        hold for any number of environments.
    """
    changes = {}
    for name, sharing_envs in (("contacts", usage["num_envs"]), ("constraints", 1)):
        buffer: BufferUsage = usage[name]
        needed = headroom * buffer["used"]
        if buffer["overflowed"]:
            needed = max(needed, 2 * buffer["capacity"])
        if needed > buffer["capacity"]:
            changes[name] = _GRANULE * math.ceil(needed / sharing_envs / _GRANULE)
    return changes
