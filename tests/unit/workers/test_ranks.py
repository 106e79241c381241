# SPDX-License-Identifier: BSD-3-Clause
"""One process of several that train together."""

import contextlib
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest
import torch

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners import Decision
from isaaclab_pc.learners.common.interface import OnIteration
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.workers import train as worker
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
    """Make this process one of several ranks, whose methods that talk to the others are replaced."""

    def install(number: int, size: int, node: int = 0, **replaced: Callable) -> Ranks:
        values = {"ISAACLAB_PC_RANKS": size, "RANK": number, "LOCAL_RANK": number, "GROUP_RANK": node}
        for name, value in values.items():
            monkeypatch.setenv(name, str(value))
        ranks = Ranks()
        for name, method in replaced.items():
            monkeypatch.setattr(ranks, name, method)
        return ranks

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
    rank, order: Order, on_first_node: int, elsewhere: int
) -> None:
    assert rank(1, 4).exit_code_after(order) == on_first_node
    assert rank(2, 4, node=1).exit_code_after(order) == elsewhere


def test_a_rank_that_paused_goes_on_with_new_episodes_as_the_first_one_does(rank) -> None:
    orders = iter([Order.GO_ON, Order.GO_ON, Order.PAUSE, Order.GO_ON, Order.STOP])
    ranks = rank(1, 2, tell=lambda own: next(orders), gather=lambda own: [own])
    done: list[str] = []

    def train(max_iterations: int, on_iteration: OnIteration) -> None:
        done.append("train")
        while on_iteration(1, {}) is Decision.CONTINUE:
            pass

    runner: Any = SimpleNamespace(train=train, start_new_episodes=lambda: done.append("new episodes"))
    assert follow(ranks, runner, 9, dict) is Order.STOP
    assert done == ["train", "new episodes", "train"]


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


@pytest.fixture
def generators() -> Iterator[None]:
    """Give the generators back as they were."""
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()
    yield
    random.setstate(before[0])
    np.random.set_state(before[1])
    torch.set_rng_state(before[2])


def noise_after_a_resume(ranks: Ranks, iteration: int = 7) -> tuple[float, float, float]:
    """Draw once with each generator of a rank that goes on from a checkpoint of the first one's generators."""
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    seed = ranks.own_settings(RunSettings(device="cpu", gpus=2)).seed
    ranks.draw_apart(seed, iteration)
    return random.random(), np.random.random(), torch.rand(()).item()


@pytest.mark.usefixtures("generators")
def test_after_a_resume_each_rank_draws_its_own_noise(rank) -> None:
    first, second = noise_after_a_resume(rank(0, 2)), noise_after_a_resume(rank(1, 2))
    assert all(one != other for one, other in zip(first, second, strict=True))
    # The first one goes on as its checkpoint says. The other one draws anew, after each checkpoint something else.
    assert first == noise_after_a_resume(rank(0, 2), iteration=8)
    assert second == noise_after_a_resume(rank(1, 2))
    assert all(one != other for one, other in zip(second, noise_after_a_resume(rank(1, 2), iteration=8), strict=True))


@pytest.mark.parametrize("checkpoint", [None, Path("model_7.pt")])
def test_a_rank_draws_apart_once_it_has_loaded_a_checkpoint(rank, monkeypatch, checkpoint: Path | None) -> None:
    done: list[object] = []
    runner = SimpleNamespace(load=lambda path, expected: done.append(path), completed_iterations=7)
    session: Any = SimpleNamespace(runner=runner, env=None, resolved=SimpleNamespace(max_iterations=9))
    monkeypatch.setattr(worker, "open_session", lambda *_, **__: contextlib.nullcontext(session))
    monkeypatch.setattr(worker, "follow", lambda *_: Order.GO_ON)
    ranks = rank(1, 2, draw_apart=lambda seed, iteration: done.append((seed, iteration)), disconnect=lambda: None)

    assert worker._train_along(RunSettings(device="cpu", num_envs=8, seed=5), checkpoint, ranks) == 0
    assert done == ([] if checkpoint is None else [checkpoint, (5, 7)])


def test_all_ranks_train_in_the_first_ones_folder(rank, tmp_path: Path) -> None:
    ranks = rank(1, 2, tell=lambda own: tmp_path, gather=lambda own: [own])
    assert ranks.first_ranks_folder(Path("logs/nodes/mine")) == tmp_path


def test_nodes_that_do_not_see_the_runs_folder_are_named(rank, tmp_path: Path) -> None:
    # Two ranks on each of four nodes.
    others = [(node in (0, 2), node) for node in (0, 1, 1, 2, 2, 3, 3)]
    first = rank(0, 2, tell=lambda own: own, gather=lambda own: [own, *others])
    with pytest.raises(ConfigError, match=rf"^{tmp_path} .* node 1, 3: "):
        first.first_ranks_folder(tmp_path)

    itself = rank(1, 2, node=1, tell=lambda own: tmp_path / "elsewhere", gather=lambda own: [own])
    with pytest.raises(ConfigError, match=" node 1: "):
        itself.first_ranks_folder(Path("mine"))
