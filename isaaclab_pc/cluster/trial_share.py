# SPDX-License-Identifier: BSD-3-Clause
"""How many trials of a tuning run at once, and the share of the machine that each gets. Loads no torch."""

import math
from dataclasses import dataclass
from typing import Self

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.num_envs.fit import DEVICE_FRACTION, HOST_FRACTION
from isaaclab_pc.num_envs.gpu import Gpu
from isaaclab_pc.num_envs.machine import usable_cores
from isaaclab_pc.num_envs.memory import free_host_memory, resolve_budget
from isaaclab_pc.num_envs.trial import format_size
from isaaclab_pc.run.platform import gpu_count
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.settings.scaling import parse_budget

_RAY_STEPS = 10_000
"""Ray's resolution: parts of a core or GPU."""


@dataclass(frozen=True)
class TrialShare:
    """The share of one trial."""

    concurrent: int
    """Trials at once."""
    cpus: float
    """CPU cores."""
    gpus: float
    """GPUs: a fraction where trials share one."""
    memory: int
    """Host memory [bytes]."""


@dataclass(frozen=True)
class Capacity:
    """The resources that all trials share."""

    cores: int
    """CPU cores."""
    host_bytes: int
    """Host memory [bytes]."""
    gpus: int = 0
    """GPUs; 0: trials run on the CPU."""
    gpu_bytes: int = 0
    """Memory of one of them [bytes]."""

    @classmethod
    def here(cls, settings: RunSettings) -> Self:
        """Read the free resources of this machine within the budget of a trial's settings.

        Raises:
            ConfigError: The GPU cannot be read.
        """
        budget = _budget(settings)
        free = free_host_memory()
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

    def share(self, trials: int, concurrent: int | None = None, host_bytes: int = 0, gpu_bytes: int = 0) -> TrialShare:
        """Divide the machine among trials; on a GPU they share one where all of them fit.

        ``concurrent`` shall run at once (None: as many as there are cores and memory for). Measured host and GPU memory
        of one [bytes] is 0 where it is not known.

        Raises:
            ConfigError: So many do not fit.
        """
        most = self.host_bytes // host_bytes if host_bytes else trials
        if self.gpus and gpu_bytes:
            most = min(most, self.gpus * (self.gpu_bytes // gpu_bytes))
        if concurrent is not None and host_bytes and concurrent > most:
            on_gpu = f" and {format_size(gpu_bytes)} of a GPU" if self.gpus else ""
            raise ConfigError(
                f"concurrent={concurrent}: a trial needs {format_size(host_bytes)}{on_gpu}, so that {most} fit; "
                "give fewer, or fewer environments."
            )

        at_once = min(concurrent, trials) if concurrent is not None else max(min(trials, most, self.cores), 1)
        cpus = self.cores // at_once if at_once <= self.cores else _round_down(self.cores / at_once)
        gpus = _round_down(1 / math.ceil(at_once / self.gpus)) if self.gpus else 0.0
        return TrialShare(at_once, cpus, gpus, host_bytes)


def _budget(settings: RunSettings) -> float | int:
    if settings.scaling.budget is not None:
        return parse_budget(settings.scaling.budget)
    return HOST_FRACTION if settings.device == "cpu" else DEVICE_FRACTION


def _round_down(exact: float) -> float:
    """Round to Ray's resolution: six times 0.1667 of a GPU would be more than one."""
    return math.floor(exact * _RAY_STEPS) / _RAY_STEPS
