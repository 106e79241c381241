# SPDX-License-Identifier: BSD-3-Clause
"""How many environments fit: search, trials in child processes, memory meters, and a cache of answers.

Importing this package loads neither torch nor a simulator. Sizes are tried in child processes, and their memory is
metered from outside.
"""

from isaaclab_pc.scaling.fit import FitResult, ProbeError, fit
from isaaclab_pc.scaling.search import Objective, SearchResult, StopReason, search
from isaaclab_pc.scaling.search_settings import SearchSettings
from isaaclab_pc.scaling.trial import Outcome, Trial

__all__ = [
    "FitResult",
    "Objective",
    "Outcome",
    "ProbeError",
    "SearchResult",
    "SearchSettings",
    "StopReason",
    "Trial",
    "fit",
    "search",
]
