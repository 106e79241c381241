# SPDX-License-Identifier: BSD-3-Clause
"""How a machine is divided among trials."""

import pytest

from isaaclab_pc.cluster import tuning
from isaaclab_pc.cluster.tuning import TrialShare, divide_machine, divided_budget
from isaaclab_pc.settings import RunSettings, ScalingSettings

GIB = 1 << 30


@pytest.mark.parametrize(
    ("gpus", "trials", "concurrent", "expected"),
    [
        (0, 20, None, TrialShare(1, 8, 0.0, 1)),
        (0, 20, 4, TrialShare(4, 2, 0.0, 4)),
        (0, 3, 4, TrialShare(3, 2, 0.0, 3)),
        (0, 20, 10, TrialShare(10, 1, 0.0, 10)),
        (2, 20, None, TrialShare(2, 4, 1.0, 1)),
        (2, 20, 3, TrialShare(3, 2, 0.5, 2)),
        (1, 20, 6, TrialShare(6, 1, 0.1666, 6)),
    ],
)
def test_trials_share_cores_and_gpus(monkeypatch, gpus, trials, concurrent, expected):
    monkeypatch.setattr(tuning, "usable_cores", lambda: 8)
    monkeypatch.setattr(tuning, "gpu_count", lambda: gpus)
    assert divide_machine(RunSettings(device="cuda:0" if gpus else "cpu"), trials, concurrent) == expected


@pytest.mark.parametrize(
    ("device", "budget", "expected"),
    [
        ("cpu", None, [None, 0.4, 0.2]),
        ("cpu", "10GiB", ["10GiB", str(5 * GIB), str(10 * GIB // 4)]),
        ("cuda:0", None, [None, 0.45, 0.225]),
        ("cuda:0", 0.8, [0.8, 0.4, 0.2]),
    ],
)
def test_the_budget_of_a_search_is_divided_among_those_that_share(device, budget, expected):
    settings = RunSettings(device=device, scaling=ScalingSettings(budget=budget))
    assert [divided_budget(settings, sharing) for sharing in (1, 2, 4)] == expected
