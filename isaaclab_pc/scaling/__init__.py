# SPDX-License-Identifier: BSD-3-Clause
"""How many environments fit: search, trials in child processes, memory meters, batch plan and profile cache.

Nothing here imports torch or a simulator: probes are child processes, and they are metered from outside.
"""

from isaaclab_pc.scaling.batch import BatchPlan, plan_batch
from isaaclab_pc.scaling.fit import FitResult, ProbeError, ScalingSettings, fit
from isaaclab_pc.scaling.search import Objective, SearchResult, Stop, search
from isaaclab_pc.scaling.trial import Outcome, Trial

__all__ = [
    "BatchPlan",
    "FitResult",
    "Objective",
    "Outcome",
    "ProbeError",
    "ScalingSettings",
    "SearchResult",
    "Stop",
    "Trial",
    "fit",
    "plan_batch",
    "search",
]
