# SPDX-License-Identifier: BSD-3-Clause
"""How many environments fit: search, trials in child processes, memory meters, batch plan and profile cache.

Importing this package loads neither torch nor a simulator: sizes are tried in child processes, whose memory is metered
from outside. Only :mod:`~isaaclab_pc.scaling.memory_plan` and :mod:`~isaaclab_pc.scaling.learner_memory`, which run in
a child, load torch.
"""

from isaaclab_pc.scaling.batch import BatchPlan, most_envs, plan_batch
from isaaclab_pc.scaling.fit import FitResult, ProbeError, SearchSettings, fit
from isaaclab_pc.scaling.search import Objective, SearchResult, StopReason, search
from isaaclab_pc.scaling.trial import Outcome, Trial

__all__ = [
    "BatchPlan",
    "FitResult",
    "Objective",
    "Outcome",
    "ProbeError",
    "SearchResult",
    "SearchSettings",
    "StopReason",
    "Trial",
    "fit",
    "most_envs",
    "plan_batch",
    "search",
]
