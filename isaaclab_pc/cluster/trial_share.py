# SPDX-License-Identifier: BSD-3-Clause
"""The share of the machine that each trial of a tuning gets. Loads no torch."""

import math
from dataclasses import dataclass

from isaaclab_pc.num_envs.fit import DEVICE_FRACTION, HOST_FRACTION
from isaaclab_pc.num_envs.memory import usable_cores
from isaaclab_pc.run.platform import gpu_count
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.settings.scaling import parse_budget
from isaaclab_pc.utils.json_record import JsonRecord, NonNegative, Size


@dataclass(frozen=True)
class TrialShare(JsonRecord):
    """The share of one trial."""

    concurrent: Size
    """Trials at once."""
    cpus: Size
    """CPU cores."""
    gpus: NonNegative
    """GPUs: a fraction where trials share one."""
    sharing: Size
    """Trials that share its memory: that of a GPU, or of the host."""


def divide_machine(settings: RunSettings, trials: int, concurrent: int | None) -> TrialShare:
    """Divide this machine among trials; ``concurrent``: how many at once (None: one on each GPU, or one on the CPU)."""
    gpus = 0 if settings.device == "cpu" else gpu_count()
    at_once = min(concurrent or max(gpus, 1), trials)
    cpus = max(usable_cores() // at_once, 1)
    if not gpus:
        return TrialShare(at_once, cpus, 0.0, at_once)
    sharing = math.ceil(at_once / gpus)
    # Rounded down to Ray's resolution: six times 0.1667 of a GPU would be more than one.
    return TrialShare(at_once, cpus, math.floor(10_000 / sharing) / 10_000, sharing)


def divided_budget(settings: RunSettings, sharing: int) -> float | str | None:
    """Return the value of ``scaling.budget`` for one of several trials that share the memory."""
    budget = settings.scaling.budget
    if sharing == 1:
        return budget
    whole = parse_budget(budget or (HOST_FRACTION if settings.device == "cpu" else DEVICE_FRACTION))
    # A fraction stays one: the answer of a search is remembered by it.
    return whole / sharing if isinstance(whole, float) else str(whole // sharing)
