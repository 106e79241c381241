# SPDX-License-Identifier: BSD-3-Clause
"""The libraries beside each other on one rollout, and each of them over many iterations."""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from rsl_rl.modules import EmpiricalNormalization
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

from isaaclab_pc.agents.networks import ObservationEncoder, RunningNorm
from isaaclab_pc.learners import RUNNERS, Decision
from tests.unit.learners.bench import NUM_ENVS, PLAN, Bench
from tests.unit.learners.fake_env import FakeEnv

WARM_UP = 100
MORE = 200
MIB = 1 << 20


def seen_by_the_networks(bench: Bench) -> dict[str, list[Tensor]]:
    """Return what encoders and normalizers are given in a rollout, by group; what is given again is left out."""
    seen: dict[str, list[Tensor]] = {"policy": [], "points": [], "critic": []}

    def note(module: nn.Module, args: tuple[Any, ...]) -> None:
        if torch.is_grad_enabled():
            return
        if isinstance(module, ObservationEncoder):
            group, value = "points", args[0]["points"]
        elif isinstance(module, RunningNorm | EmpiricalNormalization):
            value = args[0]
            group = "policy" if value.shape[1] == 2 else "critic"
        else:
            return
        if value.shape[0] == NUM_ENVS and not (seen[group] and torch.equal(seen[group][-1], value)):
            seen[group].append(value.clone())

    hook = register_module_forward_pre_hook(note)
    try:
        bench.train(1)
    finally:
        hook.remove()
    return seen


@pytest.mark.parametrize("name", RUNNERS)
def test_every_library_sees_the_same_rollout(name: str, tmp_path: Path) -> None:
    # The fake task goes its way whatever the actions are.
    env = FakeEnv(NUM_ENVS)
    expected = []
    for _ in range(PLAN.horizon):
        expected.append(env.observe())
        env.step(torch.zeros(NUM_ENVS, env.num_actions))

    seen = seen_by_the_networks(Bench(name, tmp_path))
    for group, values in seen.items():
        assert len(values) >= PLAN.horizon
        for own, truth in zip(values, expected, strict=False):
            torch.testing.assert_close(own, truth[group], rtol=0, atol=0)


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
