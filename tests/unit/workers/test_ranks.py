# SPDX-License-Identifier: BSD-3-Clause
"""One process of several that train together."""

import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from isaaclab_pc.learners import Decision
from isaaclab_pc.learners.common.interface import OnIteration
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.workers.ranks import Order, Ranks, follow

WATCHED = """
import os, sys
from isaaclab_pc.workers import ranks

ranks.GRACE_SECONDS = 0.5
print(os.getpid(), flush=True)
ranks._end_after_launcher(os.getppid())
"""


@pytest.fixture
def rank(monkeypatch):
    """Make this process one of several ranks."""

    def install(number: int, size: int) -> Ranks:
        values = {"ISAACLAB_PC_RANKS": size, "RANK": number, "LOCAL_RANK": number, "GROUP_RANK": 0}
        for name, value in values.items():
            monkeypatch.setenv(name, str(value))
        return Ranks()

    return install


@pytest.mark.parametrize(
    ("settings", "size"),
    [
        ({"cluster": "ray", "workers": 4}, 3),
        ({"cluster": "ray", "workers": 4}, 1),
        ({"gpus": 4}, 3),
        ({"gpus": 2}, 1),
        ({"gpus": 2, "nodes": 3}, 6),
        ({}, 1),
    ],
)
def test_an_update_is_shared_by_the_ranks_that_there_are(rank, settings: dict[str, object], size: int) -> None:
    own = rank(0, size).own_settings(RunSettings(device="cpu").with_values(settings))
    assert own.ranks == size


@pytest.mark.parametrize(
    ("order", "on_first_node", "elsewhere"),
    [(Order.GO_ON, 0, 0), (Order.STOP, 0, 75), (Order.GIVE_UP, 0, 1)],
)
def test_another_node_learns_whether_the_run_was_asked_to_stop(
    rank, monkeypatch, order: Order, on_first_node: int, elsewhere: int
) -> None:
    assert rank(1, 4).exit_code_after(order) == on_first_node
    ranks = rank(2, 4)
    monkeypatch.setattr(ranks, "_node_rank", 1)
    assert ranks.exit_code_after(order) == elsewhere


def test_a_rank_that_paused_goes_on_with_new_episodes_as_the_first_one_does(rank, monkeypatch) -> None:
    ranks = rank(1, 2)
    orders = iter([Order.GO_ON, Order.GO_ON, Order.PAUSE, Order.GO_ON, Order.STOP])
    monkeypatch.setattr(ranks, "tell", lambda own: next(orders))
    monkeypatch.setattr(ranks, "gather", lambda own: [own])
    done: list[str] = []

    def train(max_iterations: int, on_iteration: OnIteration) -> None:
        done.append("train")
        while on_iteration(1, {}) is Decision.CONTINUE:
            pass

    runner: Any = SimpleNamespace(train=train, start_new_episodes=lambda: done.append("new episodes"))
    assert follow(ranks, runner, 9, dict) is Order.STOP
    assert done == ["train", "new episodes", "train"]


def test_clocks_that_differ_are_noticed_by_the_first_rank(rank, monkeypatch) -> None:
    ranks = rank(0, 3)
    monkeypatch.setattr(ranks, "gather", lambda own: [own, own - 40.0, own + 20.0])
    assert ranks.clock_skew() == pytest.approx(60.0)


def test_a_rank_ends_some_time_after_its_launcher(tmp_path: Path) -> None:
    start_rank = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {WATCHED!r}])"
    with subprocess.Popen([sys.executable, "-c", start_rank], stdout=subprocess.PIPE, text=True) as launcher:
        assert launcher.stdout is not None
        process = psutil.Process(int(launcher.stdout.readline()))
        time.sleep(1.5)
        assert process.is_running()
        assert process.status() != psutil.STATUS_ZOMBIE

        launcher.kill()
        # Raises if it goes on.
        process.wait(10)
