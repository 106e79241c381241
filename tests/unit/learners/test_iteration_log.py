# SPDX-License-Identifier: BSD-3-Clause
"""The log of an iteration, with every library."""

import math
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import warp as wp

from isaaclab_pc.learners.common.iteration_metrics import EpisodeStats, IterationLog
from tests.unit.learners.bench import NUM_ENVS, PLAN, Bench
from tests.unit.learners.fake_env import FakeEnv


def test_iteration_log_averages_what_is_finite_and_copies() -> None:
    log = IterationLog()
    entry: dict[str, Any] = {"a": torch.tensor(1.0), "b": math.nan}
    log.add_extras({"log": entry})
    entry["a"] = 3.0
    log.add_extras({"log": entry})
    log.add_extras({"log": {"c": torch.tensor([1.0, 2.0]), 3: 4.0}})
    first = log.take_means()
    assert first["3"] == 4.0
    assert (first["a"], first["c"]) == (2.0, 1.5)
    assert math.isnan(first["b"])
    assert log.take_means() == {}


ODD_VALUES = {
    "np.float32": (np.float32(2), 2.0),
    "array": (np.array([1.0, 2.0]), 1.5),
    "array read backwards": (np.array([1.0, 2.0])[::-1], 1.5),
    "list": ([1, 2.0], 1.5),
    "tuple of tensors": ((torch.tensor(1.0), torch.tensor([2.0, 3.0])), 2.0),
    "flags": (np.array([True, False]), 0.5),
    "integers": (torch.tensor([0, 1]), 0.5),
    "with gradient": (torch.ones(2, requires_grad=True), 1.0),
    "fraction": (Fraction(1, 2), 0.5),
    "warp array": (wp.array([1.0, 2.0], dtype=wp.float32, device="cpu"), 1.5),
    "no elements": (torch.zeros(0), math.nan),
    "empty list": ([], math.nan),
    "infinite": (math.inf, math.nan),
    "text": ("3.5", None),
    "bytes": (b"3", None),
    "nothing": (None, None),
    "nested": ({"a": 1.0}, None),
    "complex": (1j, None),
    "complex tensor": (torch.zeros(2, dtype=torch.complex64), None),
    "meta": (torch.zeros(2, device="meta"), None),
    "ragged": ([[1.0], [2.0, 3.0]], None),
    "object": (object(), None),
    "too large": (10**400, None),
}
"""Values that a task may log, and their means; None: it is left out."""


@pytest.mark.parametrize("kind", ODD_VALUES)
def test_whatever_a_task_logs_is_a_mean_or_left_out_with_one_warning(kind: str, caplog: Any) -> None:
    value, mean = ODD_VALUES[kind]
    log = IterationLog()
    for _ in range(2):
        log.add_extras({"log": {"Task/odd": value, "Task/even": 1.0}})
        log.add_extras({"log": {"Task/odd": value}})
        expected = {"Task/even": 1.0} if mean is None else {"Task/odd": mean, "Task/even": 1.0}
        assert log.take_means() == pytest.approx(expected, nan_ok=True)
    assert ["Task/odd" in line for line in caplog.messages] == ([True] if mean is None else [])


@pytest.mark.parametrize("entry", ["log", "episode"])
def test_every_library_trains_on_whatever_a_task_logs(
    name: str, entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged = {f"Task/{kind}": value for kind, (value, _) in ODD_VALUES.items()}
    own_step = FakeEnv.step

    def step(self: FakeEnv, actions: torch.Tensor) -> Any:
        *result, extras = own_step(self, actions)
        extras["log"] = "swing" if entry == "episode" else dict(logged)
        if entry == "episode":
            extras["episode"] = dict(logged)
        return (*result, extras)

    monkeypatch.setattr(FakeEnv, "step", step)
    (_, metrics), (completed, _) = Bench(name, tmp_path).train(2)
    assert completed == 2
    means = {f"Task/{kind}": mean for kind, (_, mean) in ODD_VALUES.items() if mean is not None}
    if (name, entry) != ("rl_games", "episode"):
        assert {key: metrics[key] for key in metrics if key.startswith("Task/")} == pytest.approx(means, nan_ok=True)


def test_episode_stats_are_of_whole_episodes_that_were_not_cut_short() -> None:
    stats = EpisodeStats(2, "cpu")
    rewards = torch.tensor([[1.0, 10.0], [2.0, math.nan], [4.0, 30.0], [8.0, 40.0]])
    ended = torch.tensor([[False, False], [True, True], [False, False], [False, True]])
    for step in range(2):
        stats.add(rewards[step], ended[step])
    mean_return, mean_length = stats.means()
    assert math.isnan(mean_return), "a bad reward is not hidden"
    assert mean_length == 2.0

    stats = EpisodeStats(2, "cpu")
    stats.add(torch.tensor([5.0, 5.0]), ended[0])
    stats.forget_running()
    for step in range(4):
        stats.add(rewards[step].nan_to_num(), ended[step])
    assert stats.means() == (pytest.approx((3.0 + 10.0 + 70.0) / 3), 2.0)


def test_the_environments_speed_is_that_of_its_steps_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_step = FakeEnv.step
    seconds = [0.0]

    def step(self: FakeEnv, actions: torch.Tensor) -> Any:
        began = time.perf_counter()
        time.sleep(0.01)
        result = own_step(self, actions)
        seconds[0] += time.perf_counter() - began
        return result

    monkeypatch.setattr(FakeEnv, "step", step)
    bench = Bench(name, tmp_path)
    (_, metrics), *_ = bench.train(1)
    in_env = NUM_ENVS * PLAN.horizon / metrics["Perf/env_fps"]
    assert seconds[0] <= in_env < 1.2 * seconds[0]
    assert math.isclose(metrics["Perf/inference_fps"], NUM_ENVS * PLAN.horizon / metrics["collect_s"], rel_tol=1e-6)
