# SPDX-License-Identifier: BSD-3-Clause
"""Events that these tests show."""

from isaaclab_pc.terminal.events import Iterated

METRICS = {"Perf/total_fps": 812.4, "mean_reward": 1.25, "success_rate": 0.5, "collect_s": 1.0, "learn_s": 2.0}


def iteration(number=1, **changes):
    return Iterated(**{"iteration": number, "max_iterations": 10, "eta_s": 180.0, "metrics": METRICS, **changes})
