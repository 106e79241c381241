# SPDX-License-Identifier: BSD-3-Clause
"""Demonstrations as PyTorch datasets."""

from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader

from isaaclab_pc.demos.datasets import Demo, Episodes, Transitions
from isaaclab_pc.demos.demo_file import DemoFile
from tests.unit.commands.demo_helpers import POINTS, STEPS, episode, recorded, settings


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return recorded(tmp_path / "demos.hdf5", *range(6)).path


def test_episodes_come_in_the_order_of_recording(path: Path) -> None:
    """There are twelve, and HDF5 lists demo_10 before demo_2."""
    episodes = Episodes(path)
    assert len(episodes) == 12
    assert episodes.demos[10] == Demo("demo_10", STEPS, True, 5)
    item = episodes[10]
    assert item["obs"].keys() == {"points", "policy"}
    points = item["obs"]["points"]
    assert (points.shape, points.dtype) == ((STEPS, POINTS, 3), torch.float16)
    assert (item["actions"].dtype, item["actions"][:, 0].tolist()) == (torch.float32, [500, 501, 502, 503, 504])
    assert (item["dones"].dtype, item["dones"].tolist()) == (torch.uint8, [0, 0, 0, 0, 1])
    with pytest.raises(IndexError):
        episodes[12]


def test_transitions_are_the_steps_of_the_episodes(tmp_path: Path) -> None:
    file = DemoFile(tmp_path / "demos.hdf5")
    file.parts.mkdir()
    file.add_wave(settings(), 0, 3, 3, {env: episode(0, env, steps) for env, steps in enumerate((2, 4, 1))})
    file.merge()
    transitions = Transitions(file.path)
    assert [float(transitions[index]["rewards"]) for index in range(len(transitions))] == [0, 1, 10, 11, 12, 13, 20]
    assert transitions[-1]["obs"]["points"].shape == (POINTS, 3)
    assert float(transitions[-1]["actions"][0]) == 20.0
    with pytest.raises(IndexError):
        transitions[7]


def test_only_what_is_asked_for_is_read(path: Path) -> None:
    item = Transitions(path, ("obs/points", "actions", "states"))[3]
    assert item["obs"].keys() == {"points"}
    assert item["states"]["rigid_object"]["cube"]["root_pose"].tolist() == [3.0] * 7
    assert item.keys() == {"obs", "actions", "states"}
    with pytest.raises(KeyError, match="colour"):
        Transitions(path, ("obs/colour",))


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_read_the_same(path: Path, context: str) -> None:
    transitions = Transitions(path)
    first = transitions[0]  # the file is open before the workers start
    batches = list(DataLoader(transitions, batch_size=7, num_workers=2, multiprocessing_context=context))
    rewards = torch.cat([batch["rewards"] for batch in batches])
    assert torch.equal(rewards, torch.stack([transitions[index]["rewards"] for index in range(len(transitions))]))
    assert torch.equal(batches[0]["obs"]["points"][0], first["obs"]["points"])


def test_a_missing_file_is_told_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nothing\.hdf5"):
        Episodes(tmp_path / "nothing.hdf5")
