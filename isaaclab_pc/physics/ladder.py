# SPDX-License-Identifier: BSD-3-Clause
"""Settings to try when a simulation is unstable: smaller steps, more iterations. Loads no torch."""

from collections.abc import Mapping
from typing import Any

from isaaclab_pc.physics.apply import physx_fragments

SOLVER_SETTINGS = ("dt", "decimation", "substeps", "position_iterations")
"""Fields of :class:`~isaaclab_pc.settings.PhysicsSettings` that the ladder changes: how exactly physics is computed."""

_START: Mapping[str, Mapping[str, float]] = {
    "newton_mjwarp": {"substeps": 4, "position_iterations": 10, "dt": 1 / 60},
    "physx": {"dt": 1 / 60, "position_iterations": 8},
}
"""The foot of each ladder: what this package's tasks start from. Equal rungs are taken in this order."""

_MOST = {"substeps": 32, "position_iterations": 255}
"""PhysX takes no more iterations, and where so many do not help, more will not."""

_MIN_DT = 1 / 2000
"""Smallest physics step that is worth a try [s]."""


def harder(values: Mapping[str, float], backend: str) -> dict[str, float]:
    """Return the next rung of the ladder: twice the substeps (Newton) or iterations, or half the step.

    Next is the setting that has changed by the smallest factor from where this package's tasks start. Where the step is
    halved, the decimation is doubled: the control rate stays. ``values`` are those of :func:`present_values`, for the
    same backend.

    Returns:
        Fields of :class:`~isaaclab_pc.settings.PhysicsSettings` that change; empty at the top of the ladder.
    """
    start = _START.get(backend, _START["physx"])
    factors = {
        name: value / values[name] if name == "dt" else values[name] / value
        for name, value in start.items()
        if (values[name] / 2 >= _MIN_DT if name == "dt" else 2 * values[name] <= _MOST[name])
    }
    if not factors:
        return {}

    # With a tolerance for rounding, so that the order of _START decides between equal factors.
    smallest = min(factors.values())
    rung = next(name for name, factor in factors.items() if factor < 1.01 * smallest)

    if rung == "dt":
        return {"dt": values["dt"] / 2, "decimation": int(2 * values["decimation"])}
    return {rung: int(2 * values[rung])}


def present_values(env_cfg: Any, backend: str) -> dict[str, float]:
    """Return the values that a task runs with, of those :data:`SOLVER_SETTINGS` that the backend has.

    ``env_cfg`` is the task's config, every setting applied.
    """
    values = {"dt": float(env_cfg.sim.dt), "decimation": int(env_cfg.decimation)}
    if backend == "newton_mjwarp":
        physics = env_cfg.sim.physics
        return {**values, "substeps": physics.num_substeps, "position_iterations": physics.solver_cfg.iterations}

    # PhysX solves the scene with the largest count of any body, and has 4 where none says so.
    counts = [getattr(fragment, "solver_position_iteration_count", None) or 4 for fragment in physx_fragments(env_cfg)]
    return {**values, "position_iterations": max(counts, default=4)}
