# SPDX-License-Identifier: BSD-3-Clause
"""Measurements of physics settings, and the choice of the cheapest stable one. Loads no torch."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from isaaclab_pc.utils.json_record import Count, JsonRecord, NonNegative

_PHYSX_GRID: Mapping[str, tuple[int, ...]] = {"decimation": (1, 2, 4), "position_iterations": (2, 4, 8, 16)}

GRIDS: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "ovphysx": _PHYSX_GRID,
    "isaacsim_physx": _PHYSX_GRID,
    "newton_mjwarp": {"substeps": (1, 2, 4, 8), "position_iterations": (5, 10, 20)},
}
"""Values tried on each backend. ``decimation``, the physics steps of the task's control period, stands for ``dt``.
Newton's solver step is the physics step over ``substeps``."""

CRASHED = "the simulator crashed"
"""Note of a setting whose measuring process died."""

TOLERATED_LOSS = 0.05
"""Largest loss of the expert's success against the best setting at which a setting still counts as stable."""


@dataclass(frozen=True)
class Cell(JsonRecord):
    """The measurement of one setting of the grid."""

    settings: Mapping[str, int | float]
    """Fields of ``physics``, without the prefix."""

    env_steps: Count = 0
    """Environment steps under random actions; 0 where nothing was measured."""

    failures: Count = 0
    """Environments that the guard ended."""

    cost: NonNegative = 0.0
    """Time of 1000 environment steps under random actions [s]: wall time on a GPU; on the CPU the process's CPU time,
    which other work on the machine hardly changes."""

    success: NonNegative | None = None
    """Success rate of the task's expert; None where it has none."""

    note: str = ""
    """Why the measurement is unusable: a crash, dropped contacts."""

    @property
    def rate(self) -> str:
        """Failures per million environment steps; the 95 % upper bound where there was none, empty without steps.

        The bound is 3 / steps, the "rule of three": Hanley and Lippman-Hand, JAMA 249(13), 1983.
        """
        if not self.env_steps:
            return ""
        return f"{1e6 * self.failures / self.env_steps:.0f}" if self.failures else f"0 (< {3e6 / self.env_steps:.0f})"


def grid(backend: str, physics: Mapping[str, object]) -> list[dict[str, int]]:
    """Return the settings to measure, from the coarsest to the finest.

    Fields of ``physics`` that are not None stay as the user gave them; where all are, the only setting is empty.
    """
    fixed = {name for name, value in physics.items() if value is not None}
    if "dt" in fixed:
        fixed.add("decimation")
    axes = {name: values for name, values in GRIDS[backend].items() if name not in fixed}
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def cheapest(cells: Sequence[Cell]) -> Cell | None:
    """Return the stable setting with the lowest :attr:`Cell.cost`; None where none is stable.

    A setting is stable if its measurement is usable, no environment failed, and the expert, if there is one, loses at
    most :data:`TOLERATED_LOSS` against the best setting.
    """
    needed = max((cell.success for cell in cells if cell.success is not None), default=0.0) - TOLERATED_LOSS
    stable = [
        cell
        for cell in cells
        if cell.env_steps and not cell.failures and not cell.note and (cell.success is None or cell.success >= needed)
    ]
    return min(stable, key=lambda cell: cell.cost, default=None)
