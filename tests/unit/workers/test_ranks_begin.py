# SPDX-License-Identifier: BSD-3-Clause
"""What ranks do before they train together: they find one folder, and draw apart after a checkpoint."""

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.workers import train
from isaaclab_pc.workers.ranks import Order, Ranks


@pytest.fixture
def rank(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make this process one of two ranks."""

    def install(number: int) -> Ranks:
        values = {"ISAACLAB_PC_RANKS": 2, "RANK": number, "LOCAL_RANK": number, "GROUP_RANK": 0}
        for name, value in values.items():
            monkeypatch.setenv(name, str(value))
        return Ranks()

    return install


@pytest.fixture
def generators() -> Iterator[None]:
    """Give the generators back as they were."""
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()
    yield
    random.setstate(before[0])
    np.random.set_state(before[1])
    torch.set_rng_state(before[2])


def noise_after_a_resume(ranks: Ranks, iteration: int = 7) -> tuple[float, float, float]:
    """What a rank draws next, with each generator, where it goes on from a checkpoint of the first one's generators."""
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    seed = ranks.own_settings(RunSettings(device="cpu", gpus=2)).seed
    ranks.draw_apart(seed, iteration)
    return random.random(), np.random.random(), torch.rand(()).item()


@pytest.mark.usefixtures("generators")
def test_after_a_resume_each_rank_draws_its_own_noise(rank: Any) -> None:
    first, second = noise_after_a_resume(rank(0)), noise_after_a_resume(rank(1))
    assert all(one != other for one, other in zip(first, second, strict=True))
    # The first one goes on as its checkpoint says. The other one draws anew, after each checkpoint something else.
    assert first == noise_after_a_resume(rank(0), iteration=8)
    assert second == noise_after_a_resume(rank(1))
    assert all(one != other for one, other in zip(second, noise_after_a_resume(rank(1), iteration=8), strict=True))


@pytest.mark.parametrize("checkpoint", [None, Path("model_7.pt")])
def test_a_rank_draws_apart_once_it_has_loaded_a_checkpoint(
    rank: Any, monkeypatch: pytest.MonkeyPatch, checkpoint: Path | None
) -> None:
    done: list[object] = []
    runner = SimpleNamespace(load=lambda path, expected: done.append(path), completed_iterations=7)
    session: Any = SimpleNamespace(runner=runner, env=None, resolved=SimpleNamespace(max_iterations=9))
    monkeypatch.setattr(train, "open_session", lambda *_, **__: contextlib.nullcontext(session))
    monkeypatch.setattr(train, "follow", lambda *_: Order.GO_ON)
    ranks = rank(1)
    monkeypatch.setattr(ranks, "draw_apart", lambda seed, iteration: done.append((seed, iteration)))
    monkeypatch.setattr(ranks, "disconnect", lambda: None)

    record: Any = SimpleNamespace(data=SimpleNamespace(experiment="reach"))
    assert train._train_along(RunSettings(device="cpu", num_envs=8, seed=5), record, checkpoint, ranks) == 0
    assert done == ([] if checkpoint is None else [checkpoint, (5, 7)])


def test_all_ranks_train_in_the_first_ones_folder(rank: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ranks = rank(1)
    monkeypatch.setattr(ranks, "tell", lambda own: tmp_path)
    monkeypatch.setattr(ranks, "gather", lambda own: [own])
    assert ranks.first_ranks_folder(Path("logs/nodes/mine")) == tmp_path


def test_nodes_that_do_not_see_the_runs_folder_are_named(
    rank: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ranks = rank(0)
    # Two ranks on each of four nodes.
    monkeypatch.setattr(ranks, "tell", lambda own: own)
    monkeypatch.setattr(ranks, "gather", lambda own: [own, *[(node in (0, 2), node) for node in (0, 1, 1, 2, 2, 3, 3)]])
    with pytest.raises(
        ConfigError, match=rf"^{tmp_path} is not seen by node 1, 3: start the script in a folder that all"
    ):
        ranks.first_ranks_folder(tmp_path)


def test_a_node_that_does_not_see_the_runs_folder_says_so_itself(
    rank: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ranks = rank(1)
    monkeypatch.setattr(ranks, "_node_rank", 1)
    monkeypatch.setattr(ranks, "tell", lambda own: tmp_path / "elsewhere")
    monkeypatch.setattr(ranks, "gather", lambda own: [own])
    with pytest.raises(ConfigError, match="is not seen by node 1: start the script"):
        ranks.first_ranks_folder(Path("mine"))
