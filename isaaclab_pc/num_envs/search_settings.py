# SPDX-License-Identifier: BSD-3-Clause
"""The ``scaling`` settings, completed for the device that is searched on."""

from typing import Annotated, NamedTuple, Self

from pydantic import StringConstraints

from isaaclab_pc.num_envs.search import Objective
from isaaclab_pc.settings import RunSettings, ScalingSettings
from isaaclab_pc.settings.base import Expects
from isaaclab_pc.settings.scaling import MAX_NUM_ENVS


class Sizes(NamedTuple):
    """Sizes that a search tries; as the arguments of :func:`~isaaclab_pc.num_envs.search.search`."""

    lo: int
    hi: int
    granule: int
    start: int
    floor: int = 1


# Past 256 environments on a CPU, building the scene costs every start more than the extra frames per second give back.
_CPU_FAST = Sizes(lo=32, hi=256, granule=16, start=256)
_CPU_LARGE = Sizes(lo=32, hi=1024, granule=16, start=32)
# As many as an update of agent=large has samples for.
_CUDA_FAST = Sizes(lo=64, hi=MAX_NUM_ENVS, granule=64, start=4096)
_CUDA_LARGE = Sizes(lo=64, hi=MAX_NUM_ENVS, granule=64, start=256)


class SearchSettings(ScalingSettings):
    """The settings of a search on one device. None stands for the device's usual value.

    Raises:
        ConfigError: A setting is outside its range.
    """

    device: Annotated[str, StringConstraints(pattern=r"^(cpu|cuda|cuda:[0-9]+)$"), Expects("cpu, cuda or cuda:N")] = (
        "cpu"
    )
    """Where the trials run. Also on a GPU, host memory is held to 0.8 of the free memory."""

    @classmethod
    def of(cls, settings: RunSettings) -> Self:
        """Complete a run's settings for its device; a given ``num_envs`` is the only size to try."""
        given = settings.num_envs
        only = {} if given == "auto" else {"min": given, "max": given}
        return cls(device=settings.device, **{**settings.scaling.model_dump(), **only})

    @property
    def on_gpu(self) -> bool:
        """Whether the device is a GPU."""
        return self.device != "cpu"

    @property
    def resolved_objective(self) -> Objective:
        """The objective; as auto, throughput."""
        return Objective.THROUGHPUT if self.objective == "auto" else Objective(self.objective)

    @property
    def keeps_to_agent(self) -> bool:
        """Whether no more environments are tried than an update of the agent has samples for."""
        return self.on_gpu and self.resolved_objective is Objective.THROUGHPUT

    @property
    def sizes(self) -> Sizes:
        """The sizes to try; the usual ones give way to those that the user set."""
        fast, large = (_CUDA_FAST, _CUDA_LARGE) if self.on_gpu else (_CPU_FAST, _CPU_LARGE)
        usual = fast if self.resolved_objective is Objective.THROUGHPUT else large

        hi = self.max if self.max is not None else max(usual.hi, self.min or 0)
        lo = self.min if self.min is not None else min(usual.lo, hi)
        granule = min(usual.granule, hi)
        while hi // granule * granule < lo:
            granule //= 2
        lo = -(-lo // granule) * granule
        return Sizes(lo, hi, granule, start=min(max(usual.start, lo), hi), floor=self.min or 1)
