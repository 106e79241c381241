# SPDX-License-Identifier: BSD-3-Clause
"""What to try when a simulation is unstable: smaller steps, more iterations, tighter limits. Loads no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from isaaclab_pc.physics.apply import physx_fragments

__all__ = ["SOLVER_SETTINGS", "harder", "present_values"]

_LIMITS = ("effort_limit_scale", "velocity_limit_scale")

SOLVER_SETTINGS = ("dt", "decimation", "substeps", "position_iterations", *_LIMITS)
"""Fields of :class:`~isaaclab_pc.settings.PhysicsSettings` that the ladder changes; the task stays the same task."""

_START: Mapping[str, Mapping[str, float]] = {
    "newton_mjwarp": {"substeps": 4, "position_iterations": 10, "dt": 1 / 60},
    "physx": {"dt": 1 / 60, "position_iterations": 8},
}
"""The foot of each ladder, what this package's tasks start from; in the order in which equal rungs are taken."""

_MAX_SUBSTEPS = 32
_MAX_ITERATIONS = 255
"""PhysX takes no more, and where so many do not help, more will not."""
_MIN_DT = 1 / 2000
"""Smallest physics step that is worth a try [s]."""
_MIN_SCALE = 0.25
"""Tightest limits: a weaker or slower robot may not do its task."""
_LIMITS_LATER = 2.0
"""Doublings of the limits' rung count so much more: it comes after each of the others, since it changes the robot."""


def harder(values: Mapping[str, float], backend: str) -> dict[str, float]:
    """Return the next rung of the ladder: twice the substeps (Newton) or iterations, half the step, or half the limits.

    The rung that was climbed least is next, counted in doublings from where this package's tasks start, so that they
    are taken in turn, the limits of effort and, on PhysX, velocity last. With half the step comes twice the decimation:
    the control rate stays.

    Args:
        values: Of :func:`present_values`.
        backend: ``newton_mjwarp``, ``ovphysx`` or ``isaacsim_physx``.

    Returns:
        Fields of :class:`~isaaclab_pc.settings.PhysicsSettings` that change; empty at the top of the ladder.
    """
    start = _START.get(backend, _START["physx"])
    climbed = {
        name: value / values[name] if name == "dt" else values[name] / value
        for name, value in start.items()
        if _has_room(name, values[name])
    }
    if values["effort_limit_scale"] / 2 >= _MIN_SCALE:
        climbed["limits"] = _LIMITS_LATER / values["effort_limit_scale"]
    if not climbed:
        return {}
    # The tolerance makes equal what differs by rounding, so that their order decides.
    least = min(climbed.values())
    rung = next(name for name, times in climbed.items() if times < 1.01 * least)
    if rung == "dt":
        return {"dt": values["dt"] / 2, "decimation": int(2 * values["decimation"])}
    if rung == "limits":
        return {name: max(values[name] / 2, _MIN_SCALE) for name in _LIMITS if name in values}
    return {rung: int(2 * values[rung])}


def _has_room(name: str, value: float) -> bool:
    if name == "dt":
        return value / 2 >= _MIN_DT
    return 2 * value <= (_MAX_SUBSTEPS if name == "substeps" else _MAX_ITERATIONS)


def present_values(env_cfg: Any, backend: str, given: Mapping[str, Any]) -> dict[str, float]:
    """Read what a task runs with.

    Args:
        env_cfg: The task's config, every setting applied.
        backend: ``newton_mjwarp``, ``ovphysx`` or ``isaacsim_physx``.
        given: The ``physics`` settings of the run, for what the config does not show.

    Returns:
        Those fields of :class:`~isaaclab_pc.settings.PhysicsSettings` that the backend has and the ladder changes.
    """
    values = {"dt": float(env_cfg.sim.dt), "decimation": int(env_cfg.decimation)}
    limits = _LIMITS[:1] if backend == "newton_mjwarp" else _LIMITS
    values |= {name: given.get(name) or 1.0 for name in limits}
    if backend == "newton_mjwarp":
        physics = env_cfg.sim.physics
        return {**values, "substeps": physics.num_substeps, "position_iterations": physics.solver_cfg.iterations}
    # PhysX solves the scene with the largest count of any body, and has 4 where none says so.
    counts = [
        getattr(fragment, "solver_position_iteration_count", None) or 4
        for asset in vars(env_cfg.scene).values()
        for fragment in physx_fragments(getattr(asset, "spawn", None))
    ]
    return {**values, "position_iterations": max(counts, default=4)}
