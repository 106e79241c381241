# SPDX-License-Identifier: BSD-3-Clause
"""What a setting of physics was measured to bear, and which of several is the cheapest that holds. Loads no torch."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["GRIDS", "TOLERATED_LOSS", "Cell", "cheapest", "grid"]

GRIDS: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "ovphysx": {"decimation": (1, 2, 4), "position_iterations": (2, 4, 8, 16)},
    "isaacsim_physx": {"decimation": (1, 2, 4), "position_iterations": (2, 4, 8, 16)},
    "newton_mjwarp": {"substeps": (1, 2, 4, 8), "position_iterations": (5, 10, 20)},
}
"""Values tried on each backend. ``decimation`` stands for ``dt``: the task's control period is cut into so many physics
steps. Newton's solver step is the physics step over ``substeps``."""

TOLERATED_LOSS = 0.05
"""A setting holds if its scripted success is at most this much below the best setting's."""


@dataclass(frozen=True)
class Cell:
    """One setting, measured; holds plain values, so it goes through JSON."""

    settings: Mapping[str, float]
    """Fields of ``physics``, without the prefix."""

    env_steps: int = 0
    """Environment steps under random actions."""

    failures: Mapping[str, int] = field(default_factory=dict)
    """Environments that the guard ended meanwhile, by cause."""

    env_steps_per_s: float = 0.0
    """Environment steps of all environments per second, under random actions."""

    cost: float = 0.0
    """Seconds per 1000 environment steps under random actions: CPU time of the process on the CPU, which other
    processes hardly change; wall time on a GPU."""

    success: float | None = None
    """Success rate of the task's scripted policy; None where it has none."""

    episodes: int = 0
    """Episodes of the scripted policy."""

    note: str = ""
    """What spoils the measurement: a crash, dropped contacts."""

    @property
    def failed(self) -> int:
        """Environments that the guard ended."""
        return sum(self.failures.values())

    @property
    def failures_per_million(self) -> float | None:
        """Failures per million environment steps; None where nothing was measured."""
        return 1e6 * self.failed / self.env_steps if self.env_steps else None

    @property
    def upper_bound_per_million(self) -> float | None:
        """Rate that failures stay below with 95 % confidence where none was seen: 3 / steps ("rule of three").

        Hanley and Lippman-Hand, "If nothing goes wrong, is everything all right?", JAMA 249(13), 1983. None where
        there were failures or no steps.
        """
        return 3e6 / self.env_steps if self.env_steps and not self.failed else None

    def overrides(self) -> list[str]:
        """Return the settings as arguments of the scripts."""
        return [f"physics.{name}={value:.6g}" for name, value in self.settings.items()]


def grid(backend: str, physics: Mapping[str, object]) -> list[dict[str, int]]:
    """Return the settings to measure.

    Args:
        backend: The backend that will run.
        physics: The ``physics`` settings of the config; what is not None was given by the user and stays.

    Returns:
        Values by name, from the coarsest to the finest; one empty setting where the user gave all of them.
    """
    fixed = {name for name, value in physics.items() if value is not None}
    if "dt" in fixed:
        fixed.add("decimation")
    axes = {name: values for name, values in GRIDS[backend].items() if name not in fixed}
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def cheapest(cells: Sequence[Cell]) -> Cell | None:
    """Choose the setting to train with.

    A setting holds if no environment failed under random actions, nothing spoiled the measurement, and the scripted
    policy, where there is one, loses at most :data:`TOLERATED_LOSS` against the best setting.

    Args:
        cells: What was measured.

    Returns:
        The one with the lowest :attr:`Cell.cost` among those that hold; None where none does.
    """
    best = max((cell.success for cell in cells if cell.success is not None), default=None)
    holding = [
        cell
        for cell in cells
        if cell.env_steps
        and not cell.failed
        and not cell.note
        and (best is None or (cell.success is not None and cell.success >= best - TOLERATED_LOSS))
    ]
    return min(holding, key=lambda cell: cell.cost, default=None)
