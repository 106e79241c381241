# SPDX-License-Identifier: BSD-3-Clause
"""The `scaling` settings, checked when they are made and completed for the device."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from isaaclab_pc.errors import ConfigError, closest
from isaaclab_pc.scaling.memory import parse_budget
from isaaclab_pc.scaling.profile import CacheMode
from isaaclab_pc.scaling.search import Objective

__all__ = ["ScalingSettings", "Sizes"]


class Sizes(NamedTuple):
    """Which sizes a search tries."""

    lo: int
    """Smallest."""
    hi: int
    """Largest."""
    granule: int
    """All are multiples of this."""
    start: int
    """The first one."""


# Past 256 environments on a CPU, building the scene costs every start more than the extra frames per second give back.
_CPU_FAST = Sizes(lo=32, hi=256, granule=16, start=32)
_CPU_LARGE = Sizes(lo=32, hi=1024, granule=16, start=32)
_CUDA = Sizes(lo=64, hi=65536, granule=64, start=1024)


@dataclass(frozen=True)
class ScalingSettings:
    """The config group `scaling`, and the device. None means: as is usual for the device.

    Raises:
        ConfigError: A setting is outside its range; nothing has been started yet.
    """

    device: str = "cpu"
    """"cpu", "cuda" or "cuda:N"."""
    budget: float | str | None = None
    """Fraction in (0, 1] of the free memory, or a size such as "20GiB", of the host on the CPU and of the GPU on a
    GPU; None: 0.8 of the host's, 0.9 of the GPU's. On a GPU, host memory is always held to 0.8 of what is free."""
    objective: str = "auto"
    """"memory", "throughput", or "auto": throughput on the CPU, memory on a GPU."""
    min: int | None = None
    """Smallest size to try."""
    max: int | None = None
    """Largest size to try."""
    granule: int | None = None
    """Sizes are multiples of this."""
    max_trials: int | None = None
    """Most trials of a search; None: as many as fit into `max_seconds`."""
    max_seconds: float = 180.0
    """Longest time for a search [s]."""
    cache: str = "use"
    """"use", "refresh" or "ignore"."""

    def __post_init__(self) -> None:
        """Check every setting."""
        if self.device.partition(":")[0] not in ("cpu", "cuda"):
            raise ConfigError(f"device={self.device} must be cpu, cuda or cuda:N")
        if self.budget is not None:
            parse_budget(self.budget)
        _one_of("scaling.objective", self.objective, ["auto", *Objective])
        _one_of("scaling.cache", self.cache, list(CacheMode))
        for name in ("min", "max", "granule", "max_trials"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise ConfigError(f"scaling.{name}={value} must be a whole number of at least 1")
        seconds = self.max_seconds
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
            raise ConfigError(f"scaling.max_seconds={seconds} must be a number above 0")
        sizes = self.sizes
        if sizes.lo > sizes.hi:
            raise ConfigError(f"scaling.min={sizes.lo} is larger than scaling.max={sizes.hi}")
        if sizes.hi // sizes.granule * sizes.granule < sizes.lo:
            raise ConfigError(
                f"scaling.granule={sizes.granule}: no multiple of it lies between scaling.min={sizes.lo} and "
                f"scaling.max={sizes.hi}"
            )

    @property
    def on_gpu(self) -> bool:
        """Whether the device is a GPU."""
        return self.device != "cpu"

    @property
    def resolved_objective(self) -> Objective:
        """The objective for this device."""
        if self.objective == "auto":
            return Objective.MEMORY if self.on_gpu else Objective.THROUGHPUT
        return Objective(self.objective)

    @property
    def sizes(self) -> Sizes:
        """The sizes to try; what the user left open gives way to what the user set."""
        on_cpu = _CPU_FAST if self.resolved_objective == "throughput" else _CPU_LARGE
        usual = _CUDA if self.on_gpu else on_cpu
        hi = self.max if self.max is not None else max(usual.hi, self.min or 0)
        lo = self.min if self.min is not None else min(usual.lo, hi)
        granule = self.granule if self.granule is not None else min(usual.granule, hi)
        return Sizes(lo, hi, granule, min(max(usual.start, lo), hi))


def _one_of(name: str, value: object, choices: list[str]) -> None:
    if value not in choices:
        raise ConfigError(f"{name}={value}: {closest(str(value), choices)}")
