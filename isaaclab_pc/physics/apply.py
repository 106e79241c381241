# SPDX-License-Identifier: BSD-3-Clause
"""One vocabulary for time steps, solver iterations and contact capacity, mapped to what each backend reads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.physics.backends import resolve_backend
from isaaclab_pc.settings import PhysicsSettings

if TYPE_CHECKING:
    from isaaclab.envs import DirectRLEnvCfg

MAX_DT = 0.1
"""Largest physics step accepted [s]."""

PRESETS: Mapping[str, Mapping[str, Mapping[str, float]]] = {
    "ovphysx": {
        "fast": {"dt": 1 / 30, "position_iterations": 8, "velocity_iterations": 1},
        "balanced": {"dt": 1 / 60, "position_iterations": 8, "velocity_iterations": 1},
        "robust": {"dt": 1 / 120, "position_iterations": 16, "velocity_iterations": 1},
    },
    "newton_mjwarp": {
        "balanced": {"dt": 1 / 60, "substeps": 4, "position_iterations": 10},
        "robust": {"dt": 1 / 60, "substeps": 8, "position_iterations": 10},
    },
}
"""Fields of :class:`PhysicsSettings` by backend and preset. ``dt`` is the largest physics step: the one that is used
divides the task's control period. They come from the measurement in benchmarks/results/stability.md. Newton has no
``fast``: with 2 substeps instead of 4 grasped cubes are lost."""


def apply_physics(env_cfg: DirectRLEnvCfg, settings: PhysicsSettings) -> str:
    """Write ``settings`` into an environment's config, in place; returns the name of the backend that will run.

    ``env_cfg.sim.physics`` is a ``PhysicsPresetsCfg``, or the one of its presets that ``settings.backend`` names.

    Raises:
        ConfigError: The backend is not installed or lacks a setting or the preset, or ``dt`` does not divide the
            control period.
    """
    from isaaclab_pc.physics.presets import PhysicsPresetsCfg

    backend = resolve_backend(settings.backend, str(env_cfg.sim.device))
    if isinstance(env_cfg.sim.physics, PhysicsPresetsCfg):
        env_cfg.sim.physics = getattr(env_cfg.sim.physics, backend)

    settings = expand_preset(settings, backend, env_cfg.sim.dt * env_cfg.decimation)
    _apply_time_steps(env_cfg, settings)
    if backend == "newton_mjwarp":
        _apply_newton(env_cfg.sim.physics, settings)
    else:
        _apply_physx(env_cfg, settings, backend)
    return backend


def check_time_steps(env_cfg: Any) -> None:
    """Raise ConfigError for time steps and iterations of any Isaac Lab task that no solver can take."""
    if not 0.0 < env_cfg.sim.dt <= MAX_DT:
        raise ConfigError(f"env.sim.dt={env_cfg.sim.dt} must be above 0 and at most {MAX_DT} s: set a smaller step.")
    physics = env_cfg.sim.physics
    counts = {
        "decimation": env_cfg.decimation,
        "sim.physics.num_substeps": getattr(physics, "num_substeps", None),
        "sim.physics.solver_cfg.iterations": getattr(getattr(physics, "solver_cfg", None), "iterations", None),
    }
    for name, value in counts.items():
        if value is not None and value < 1:
            raise ConfigError(f"env.{name}={value} must be a whole number of at least 1.")


def expand_preset(settings: PhysicsSettings, backend: str, control_period: float) -> PhysicsSettings:
    """Return settings without a preset: what it says about fields that were not given is filled in.

    ``backend`` is the one that will run, of :func:`resolve_backend`. The ``control_period``, the time between two
    actions of the task [s], stays.

    Raises:
        ConfigError: The backend lacks the preset; the message names the alternative.
    """
    if settings.preset is None:
        return settings
    presets = PRESETS.get(backend, {})
    if settings.preset not in presets:
        others = " or ".join(f"physics.preset={name}" for name in presets)
        raise ConfigError(
            f"physics.preset={settings.preset} does not exist on {backend}: use "
            f"{others or 'physics.dt and physics.position_iterations'}, or physics=ovphysx."
        )
    values = dict(presets[settings.preset])
    # The tolerance keeps a step that divides the period exactly from being halved by rounding.
    values["dt"] = control_period / (settings.decimation or math.ceil(control_period / values["dt"] - 1e-6))
    given = {name for name, value in settings.model_dump().items() if value is not None}
    missing: dict[str, Any] = {name: value for name, value in values.items() if name not in given}
    return settings.with_values({"preset": None, **missing})


def _apply_time_steps(env_cfg: DirectRLEnvCfg, settings: PhysicsSettings) -> None:
    control_period = env_cfg.sim.dt * env_cfg.decimation
    if settings.dt is not None:
        env_cfg.sim.dt = settings.dt
        if settings.decimation is None:
            steps = control_period / settings.dt
            decimation = max(1, round(steps))
            if abs(steps - decimation) > 1e-3 * decimation:
                raise ConfigError(
                    f"physics.dt={settings.dt} does not divide the control period of {control_period:.6g} s: "
                    f"use physics.dt={control_period / decimation:.6g}, or set physics.decimation too."
                )
            env_cfg.decimation = decimation
    if settings.decimation is not None:
        env_cfg.decimation = settings.decimation
    env_cfg.sim.render_interval = env_cfg.decimation


def _apply_newton(physics: Any, settings: PhysicsSettings) -> None:
    if settings.velocity_iterations is not None:
        raise ConfigError(
            "physics.velocity_iterations does not exist on newton_mjwarp: use physics.position_iterations "
            "(solver iterations) or physics.substeps."
        )
    if settings.substeps is not None:
        physics.num_substeps = settings.substeps
    if settings.position_iterations is not None:
        physics.solver_cfg.iterations = settings.position_iterations
    if settings.contacts is not None:
        physics.solver_cfg.nconmax = settings.contacts
    if settings.constraints is not None:
        physics.solver_cfg.njmax = settings.constraints


def _apply_physx(env_cfg: DirectRLEnvCfg, settings: PhysicsSettings, backend: str) -> None:
    if settings.substeps is not None:
        raise ConfigError(
            f"physics.substeps does not exist on {backend}: use a smaller physics.dt "
            f"(now {env_cfg.sim.dt:.6g} s); the control rate stays."
        )
    if settings.constraints is not None:
        raise ConfigError(f"physics.constraints does not exist on {backend}: use physics.contacts, on a GPU.")
    if settings.contacts is not None:
        _apply_physx_capacity(env_cfg, settings.contacts, backend)
    iterations = {
        "solver_position_iteration_count": settings.position_iterations,
        "solver_velocity_iteration_count": settings.velocity_iterations,
    }
    # PhysX solves the scene with the largest count of any body, so every asset gets the same.
    for fragment in physx_fragments(env_cfg):
        for field, value in iterations.items():
            if value is not None and hasattr(fragment, field):
                setattr(fragment, field, value)


def _apply_physx_capacity(env_cfg: DirectRLEnvCfg, contacts: int, backend: str) -> None:
    if str(env_cfg.sim.device).startswith("cpu"):
        raise ConfigError(
            f"physics.contacts has no meaning for {backend} on the CPU, where PhysX makes room by itself: leave it "
            "out, or use physics=newton_mjwarp."
        )
    physics: Any = env_cfg.sim.physics
    total = contacts * env_cfg.scene.num_envs
    # A patch has at least one contact, so as many patches as contacts are always enough.
    physics.gpu_max_rigid_contact_count = max(total, physics.gpu_max_rigid_contact_count)
    physics.gpu_max_rigid_patch_count = max(total, physics.gpu_max_rigid_patch_count)


def physx_fragments(env_cfg: Any) -> list[Any]:
    """Return the parts of a scene's spawners and their variants that may hold PhysX's iteration counts."""
    # Text names classes, and asking it for an attribute loads them.
    parts = [part for part in vars(env_cfg.scene).values() if not isinstance(part, str)]
    spawners = [getattr(part, "spawn", None) for part in parts]
    spawners += [variant for spawn in spawners for variant in getattr(spawn, "assets_cfg", None) or []]
    props = [getattr(spawn, name, None) for spawn in spawners for name in ("rigid_props", "articulation_props")]
    return [fragment for each in props for fragment in (each if isinstance(each, (list, tuple)) else [each])]
