# SPDX-License-Identifier: BSD-3-Clause
"""Settings to try when a simulation is unstable: smaller steps, more iterations, tighter limits. Loads no torch."""

from collections.abc import Mapping
from typing import Any

from isaaclab_pc.physics.apply import physx_fragments

_LIMITS = ("effort_limit_scale", "velocity_limit_scale")

SOLVER_SETTINGS = ("dt", "decimation", "substeps", "position_iterations", *_LIMITS)
"""Fields of :class:`~isaaclab_pc.settings.PhysicsSettings` that the ladder changes.

They say how exactly physics is computed, and how strong and fast joints are at most.
"""

_START: Mapping[str, Mapping[str, float]] = {
    "newton_mjwarp": {"substeps": 4, "position_iterations": 10, "dt": 1 / 60},
    "physx": {"dt": 1 / 60, "position_iterations": 8},
}
"""The foot of each ladder: what this package's tasks start from. Equal rungs are taken in this order."""

_MOST = {"substeps": 32, "position_iterations": 255}
"""PhysX takes no more iterations, and where so many do not help, more will not."""

_MIN_DT = 1 / 2000
"""Smallest physics step that is worth a try [s]."""

_MIN_SCALE = 0.25
"""Tightest limits: a weaker or slower robot may be unable to do its task."""

_LIMITS_LATER = 2.0
"""Extra factor of the limits, which are last in each round, since they change the robot."""


def harder(values: Mapping[str, float], backend: str) -> dict[str, float]:
    """Return the next rung of the ladder: twice the substeps (Newton) or iterations, half the step, or half the limits.

    Next is the setting that has changed by the smallest factor from where this package's tasks start; the limits of
    effort and, on PhysX, velocity are last. Where the step is halved, the decimation is doubled: the control rate
    stays. ``values`` are those of :func:`present_values`, for the same backend.

    Returns:
        Fields of :class:`~isaaclab_pc.settings.PhysicsSettings` that change; empty at the top of the ladder.
    """
    start = _START.get(backend, _START["physx"])
    factors = {
        name: value / values[name] if name == "dt" else values[name] / value
        for name, value in start.items()
        if (values[name] / 2 >= _MIN_DT if name == "dt" else 2 * values[name] <= _MOST[name])
    }
    if values["effort_limit_scale"] / 2 >= _MIN_SCALE:
        factors["limits"] = _LIMITS_LATER / values["effort_limit_scale"]
    if not factors:
        return {}

    # With a tolerance for rounding, so that the order of _START decides between equal factors.
    smallest = min(factors.values())
    rung = next(name for name, factor in factors.items() if factor < 1.01 * smallest)

    if rung == "dt":
        return {"dt": values["dt"] / 2, "decimation": int(2 * values["decimation"])}
    if rung == "limits":
        return {name: max(values[name] / 2, _MIN_SCALE) for name in _LIMITS if name in values}
    return {rung: int(2 * values[rung])}


def present_values(env_cfg: Any, backend: str, given: Mapping[str, Any]) -> dict[str, float]:
    """Return the values that a task runs with, of those :data:`SOLVER_SETTINGS` that the backend has.

    ``env_cfg`` is the task's config, every setting applied; ``given`` are the ``physics`` settings of the run, for the
    limits' scales, which the config does not show.
    """
    values = {"dt": float(env_cfg.sim.dt), "decimation": int(env_cfg.decimation)}
    limits = _LIMITS[:1] if backend == "newton_mjwarp" else _LIMITS
    values |= {name: given.get(name) or 1.0 for name in limits}

    if backend == "newton_mjwarp":
        physics = env_cfg.sim.physics
        return {**values, "substeps": physics.num_substeps, "position_iterations": physics.solver_cfg.iterations}

    # PhysX solves the scene with the largest count of any body, and has 4 where none says so.
    counts = [getattr(fragment, "solver_position_iteration_count", None) or 4 for fragment in physx_fragments(env_cfg)]
    return {**values, "position_iterations": max(counts, default=4)}
