# SPDX-License-Identifier: BSD-3-Clause
"""Events that these tests show."""

from isaaclab_pc.terminal.events import Iterated, TrialStatus

METRICS = {"Perf/total_fps": 812.4, "mean_reward": 1.25, "success_rate": 0.5, "collect_s": 1.0, "learn_s": 2.0}


def iteration(number=1, **changes):
    return Iterated(**{"iteration": number, "max_iterations": 10, "eta_s": 180.0, "metrics": METRICS, **changes})


def trial(**changes):
    """A trial of twenty, of which three have ended."""
    fields = {"trial": "003", "status": "completed", "iteration": 90, "values": {"seed": "1"}, "score": 0.95}
    return TrialStatus(**(fields | {"metric": "success_rate", "ended": 3, "trials": 20} | changes))
