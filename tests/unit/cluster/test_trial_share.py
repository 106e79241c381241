# SPDX-License-Identifier: BSD-3-Clause
"""How a machine is divided among trials."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isaaclab_pc.cluster.trial_share import Capacity, TrialShare
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.settings import RunSettings, ScalingSettings

GIB = 1 << 30
CPU = Capacity(cores=8, host_bytes=20 * GIB)
GPU = Capacity(cores=16, host_bytes=100 * GIB, gpus=2, gpu_bytes=40 * GIB)


@pytest.mark.parametrize(
    ("machine", "trials", "concurrent", "demand", "expected"),
    [
        (CPU, 20, None, (2 * GIB,), TrialShare(8, 1, 0.0, 2 * GIB)),
        (CPU, 20, None, (3 * GIB,), TrialShare(6, 1, 0.0, 3 * GIB)),
        (CPU, 20, None, (30 * GIB,), TrialShare(1, 8, 0.0, 30 * GIB)),
        (CPU, 3, None, (2 * GIB,), TrialShare(3, 2, 0.0, 2 * GIB)),
        (CPU, 20, 10, (2 * GIB,), TrialShare(10, 0.8, 0.0, 2 * GIB)),
        (CPU, 20, 1, (), TrialShare(1, 8, 0.0, 0)),
        (GPU, 20, None, (5 * GIB, 36 * GIB), TrialShare(2, 8, 1.0, 5 * GIB)),
        (GPU, 20, None, (5 * GIB, 13 * GIB), TrialShare(6, 2, 0.3333, 5 * GIB)),
        (GPU, 20, 3, (5 * GIB, 13 * GIB), TrialShare(3, 5, 0.5, 5 * GIB)),
    ],
)
def test_trials_share_what_all_of_them_fit_into(machine, trials, concurrent, demand, expected):
    assert machine.share(trials, concurrent, *demand) == expected


@pytest.mark.parametrize(("machine", "demand"), [(CPU, (6 * GIB,)), (GPU, (GIB, 21 * GIB))])
def test_more_at_once_than_fit_are_refused(machine, demand):
    with pytest.raises(ConfigError, match=r"^concurrent=4: .* [23] "):
        machine.share(20, 4, *demand)


@pytest.mark.parametrize(
    ("machine", "device", "budget", "expected"),
    [
        (CPU, "cpu", None, [0.8, 0.4, 0.2]),
        (CPU, "cpu", "10GiB", [10 * GIB, 5 * GIB, 10 * GIB // 4]),
        (GPU, "cuda:0", None, [0.9, 0.9, 0.45]),
        (GPU, "cuda:0", 0.8, [0.8, 0.8, 0.4]),
    ],
)
def test_the_budget_of_a_search_is_divided_among_those_that_share(machine, device, budget, expected):
    settings = RunSettings(device=device, scaling=ScalingSettings(budget=budget))
    assert [machine.divided_budget(settings, concurrent) for concurrent in (1, 2, 4)] == expected


@given(
    st.integers(1, 64),
    st.integers(1, 100),
    st.integers(0, 4),
    st.integers(1, 50),
    st.integers(1, 50),
    st.integers(1, 99),
)
def test_all_that_run_at_once_fit(cores, host, gpus, gpu, need, trials):
    machine = Capacity(cores, host * GIB, gpus, gpu * GIB if gpus else 0)
    demand = (need * GIB, need * GIB)
    part = machine.share(trials, None, *demand)
    if part.concurrent > 1:
        assert part.concurrent * need * GIB <= machine.host_bytes
        assert part.concurrent * part.cpus <= cores
        if gpus:
            on_each = round(1 / part.gpus)
            assert on_each * need * GIB <= machine.gpu_bytes
            assert on_each * round(part.gpus, 4) <= 1.0, "as Ray rounds it"
