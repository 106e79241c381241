# SPDX-License-Identifier: BSD-3-Clause
"""Find drives that are too stiff for the time step.

The checks are functions of arrays; :func:`check_scene` reads the arrays from a running Isaac Lab scene. They give
warnings and no errors: a scene may work all the same, and the warning tells where to look when it does not.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def largest_stable_dt(
    stiffness: ArrayLike, damping: ArrayLike, inertia: ArrayLike, *, implicit_damping: bool = False
) -> NDArray[np.float64]:
    """Return the largest time step [s] at which the motion of an undisturbed drive does not grow; inf for any step.

    A joint of inertia m under the drive force -k x - d v is stepped by semi-implicit Euler:
    v' = v - dt (k x + d v) / m and x' = x + dt v'. By Jury's criterion (1964) the eigenvalues of this map lie in the
    unit circle while dt^2 k + 2 dt d < 4 m. With the damping taken at the end of the step (MuJoCo's
    ``implicitfast``), v' = (v - dt k x / m) / (1 + dt d / m), and the bound is dt^2 k - 2 dt d < 4 m.

    Args:
        stiffness: k [N*m/rad or N/m], any shape.
        damping: d [N*m*s/rad or N*s/m], broadcast with it.
        inertia: m, what the joint feels, armature included [kg*m^2 or kg], above 0, broadcast with it.
        implicit_damping: Whether the solver takes the damping at the end of the step.
    """
    k, d, m = np.broadcast_arrays(*(np.asarray(value, dtype=np.float64) for value in (stiffness, damping, inertia)))

    root = np.sqrt(d**2 + 4.0 * k * m)
    with np.errstate(divide="ignore", invalid="ignore"):
        # The positive root of k dt^2 -+ 2 d dt - 4 m, in the form that does not cancel.
        step = (d + root) / k if implicit_damping else 4.0 * m / (d + root)
    return np.where((k <= 0.0) & ((d <= 0.0) | implicit_damping), np.inf, step)


def check_drives(
    names: Sequence[str],
    stiffness: ArrayLike,
    damping: ArrayLike,
    inertia: ArrayLike,
    dt: float,
    *,
    implicit_damping: bool = False,
) -> list[str]:
    """Return a warning for each drive beyond :func:`largest_stable_dt`, with a stable step and armature.

    The drives of the joints ``names``, J, compute their force at steps of ``dt`` [s]; the rest is as there, each (J,).
    """
    k, d, m = (np.asarray(value, dtype=np.float64) for value in (stiffness, damping, inertia))
    limits = largest_stable_dt(k, d, m, implicit_damping=implicit_damping)
    sign = -1.0 if implicit_damping else 1.0
    needed_inertia = (dt**2 * k + sign * 2.0 * dt * d) / 4.0
    return [
        f"the drive of {name} (stiffness {k[i]:.4g}, damping {d[i]:.4g}, inertia {m[i]:.4g}) is unstable at a step of "
        f"{dt:.4g} s: the limit is {limits[i]:.4g} s; use a smaller physics.dt, lower gains, or "
        f"{needed_inertia[i] - m[i]:.2g} more armature"
        for i, name in enumerate(names)
        if dt > limits[i]
    ]


def check_scene(scene: Any, sim_cfg: Any) -> list[str]:
    """Return a warning for each drive of an initialized scene that is too stiff, as in its first environment.

    Drives that the solver integrates implicitly (PhysX) have no limit and are left out. MuJoCo Warp takes damping at
    the end of its own step and stiffness at the beginning; Isaac Lab's explicit actuators compute a force once per
    physics step. A joint's inertia is what it feels while all others are free (the inverse of the diagonal of the
    inverse mass matrix) in the present pose: no drive is stable that this finds unstable.
    """
    return [warning for asset in scene.articulations.values() for warning in _check_actuators(asset, sim_cfg)]


def _check_actuators(asset: Any, sim_cfg: Any) -> list[str]:
    solver_cfg = getattr(sim_cfg.physics, "solver_cfg", None)
    inertia = _joint_inertia(asset)

    warnings: list[str] = []
    for actuator in asset.actuators.values():
        step = sim_cfg.dt
        implicit_damping = False
        if actuator.is_implicit_model:
            if solver_cfg is None:
                continue
            step /= sim_cfg.physics.num_substeps
            implicit_damping = getattr(solver_cfg, "integrator", "") in ("implicit", "implicitfast")

        names = actuator.joint_names
        indices = actuator.joint_indices
        ids = list(range(len(names))) if isinstance(indices, slice) else [int(index) for index in indices]
        stiffness = actuator.stiffness[0].cpu().numpy()
        damping = actuator.damping[0].cpu().numpy()
        warnings += check_drives(names, stiffness, damping, inertia[ids], step, implicit_damping=implicit_damping)
    return warnings


def _joint_inertia(asset: Any) -> NDArray[np.float64]:
    """Return what each joint feels, armature included, shape (J,)."""
    mass_matrix = asset.data.mass_matrix.torch[0].double().cpu().numpy()
    armature = asset.data.joint_armature.torch[0].double().cpu().numpy()
    # A floating base has rows of its own, before those of the joints.
    base = len(mass_matrix) - len(armature)
    mass_matrix = mass_matrix + np.diag(np.concatenate([np.zeros(base), armature]))
    return 1.0 / np.diag(np.linalg.inv(mass_matrix))[base:]
