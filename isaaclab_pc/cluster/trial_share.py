# SPDX-License-Identifier: BSD-3-Clause
"""How many trials a machine bears at once, and what each of them gets. Loads no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.launch.platform import gpu_count
from isaaclab_pc.scaling.fit import DEVICE_FRACTION, HOST_FRACTION
from isaaclab_pc.scaling.gpu import Gpu
from isaaclab_pc.scaling.machine import usable_cores
from isaaclab_pc.scaling.memory import free_host_memory, resolve_budget
from isaaclab_pc.scaling.trial import format_size
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.settings.scaling import parse_budget

__all__ = ["Demand", "Supply", "TrialShare", "share"]

_RAY_STEPS = 10_000
"""Parts of a core or GPU that Ray tells apart."""


@dataclass(frozen=True)
class Supply:
    """Share of a machine for all trials together."""

    cores: int
    """CPU cores."""
    host_bytes: int
    """Host memory [bytes]."""
    gpus: int = 0
    """GPUs; 0: trials run on the CPU."""
    gpu_bytes: int = 0
    """Memory of one of them [bytes]."""

    @classmethod
    def here(cls, settings: RunSettings) -> Supply:
        """Read what this machine has now.

        Args:
            settings: Those of a trial, for the device and the budget.

        Raises:
            ConfigError: The GPU cannot be read.
        """
        budget = _budget(settings)
        free = free_host_memory().size
        if settings.device == "cpu":
            return cls(usable_cores(), resolve_budget(budget, free))
        gpu_bytes = resolve_budget(budget, Gpu(settings.device).free())
        return cls(usable_cores(), resolve_budget(HOST_FRACTION, free), gpu_count(), gpu_bytes)

    def divided_budget(self, settings: RunSettings, concurrent: int) -> float | int:
        """Return the value of ``scaling.budget`` for one of several trials that run at once."""
        budget = _budget(settings)
        sharing = math.ceil(concurrent / self.gpus) if self.gpus else concurrent
        # A fraction stays one: the answer of a search is remembered by it.
        return budget / sharing if isinstance(budget, float) else budget // sharing


def _budget(settings: RunSettings) -> float | int:
    if settings.scaling.budget is not None:
        return parse_budget(settings.scaling.budget)
    return HOST_FRACTION if settings.device == "cpu" else DEVICE_FRACTION


@dataclass(frozen=True)
class Demand:
    """Measured need of one trial."""

    host_bytes: int
    """Host memory [bytes]."""
    gpu_bytes: int = 0
    """GPU memory [bytes]."""


@dataclass(frozen=True)
class TrialShare:
    """Share of one of several trials."""

    concurrent: int
    """Trials at once."""
    cpus: float
    """CPU cores."""
    gpus: float
    """GPUs: a fraction where trials share one."""
    memory: int
    """Host memory [bytes]."""


def share(supply: Supply, trials: int, concurrent: int | None = None, demand: Demand | None = None) -> TrialShare:
    """Divide a machine among trials. They share what all of them fit into, and nothing else.

    Args:
        supply: What there is.
        trials: How many there are.
        concurrent: How many shall run at once; None: as many as there are cores and memory for.
        demand: What one needs; None: not measured yet.

    Returns:
        What each gets.

    Raises:
        ConfigError: So many do not fit.
    """
    most = trials
    if demand is not None:
        most = supply.host_bytes // max(demand.host_bytes, 1)
        if supply.gpus:
            most = min(most, supply.gpus * (supply.gpu_bytes // max(demand.gpu_bytes, 1)))
    if concurrent is not None and demand is not None and concurrent > most:
        on_gpu = f" and {format_size(demand.gpu_bytes)} of a GPU" if supply.gpus else ""
        raise ConfigError(
            f"concurrent={concurrent}: a trial needs {format_size(demand.host_bytes)}{on_gpu}, so that {most} fit; "
            "give fewer, or fewer environments."
        )

    at_once = max(min(trials, most, supply.cores), 1) if concurrent is None else min(concurrent, trials)
    on_each_gpu = math.ceil(at_once / supply.gpus) if supply.gpus else 1
    cpus = supply.cores // at_once if at_once <= supply.cores else _share(supply.cores / at_once)
    gpus = _share(1 / on_each_gpu) if supply.gpus else 0.0
    memory = 0 if demand is None else demand.host_bytes
    return TrialShare(at_once, cpus, gpus, memory)


def _share(exact: float) -> float:
    """Round down to what Ray tells apart: six times 0.1667 of a GPU would be more than there is."""
    return math.floor(exact * _RAY_STEPS) / _RAY_STEPS
