# SPDX-License-Identifier: BSD-3-Clause
"""Each library over many iterations."""

import threading
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import psutil
import pytest

from isaaclab_pc.learners import RUNNERS, Decision
from tests.unit.learners.bench import Bench

WARM_UP = 100
MORE = 200
MIB = 1 << 20


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNNERS)
def test_memory_and_threads_stay_as_they_are_over_many_iterations(name: str, tmp_path: Path) -> None:
    process = psutil.Process()
    rss: list[int] = []
    threads: list[int] = []

    def on_iteration(completed: int, metrics: Mapping[str, float]) -> Decision:
        rss.append(process.memory_info().rss)
        threads.append(threading.active_count())
        return Decision.CONTINUE

    bench = Bench(name, tmp_path, max_iterations=WARM_UP + MORE)
    bench.env.reset()
    bench.runner.train(WARM_UP + MORE, on_iteration)

    slope = np.polyfit(range(MORE), rss[WARM_UP:], 1)[0]
    assert 100 * slope < MIB, f"{100 * slope / MIB:.2f} MiB more in 100 iterations"
    assert threads[-1] == threads[WARM_UP]
    assert process.children() == []
