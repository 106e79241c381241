# SPDX-License-Identifier: BSD-3-Clause
"""Frames of an episode side by side: their order, their beginning, and what is kept."""

from typing import Any

import pytest
import torch

from isaaclab_pc.envs import PointCloudEnvCfg
from isaaclab_pc.envs.observation_history import ObservationHistory, newest_frame
from isaaclab_pc.errors import ConfigError

NUM_ENVS = 3


def frame(step: int) -> dict[str, torch.Tensor]:
    """Observations of a step: numbers that tell step and environment."""
    value = 10.0 * step + torch.arange(NUM_ENVS)
    return {
        "policy": value[:, None].repeat(1, 2),
        "points": value[:, None, None].repeat(1, 4, 3).half(),
        "depth": value[:, None, None, None].repeat(1, 1, 5, 6),
        "critic": value[:, None],
    }


def steps_in(observation: dict[str, torch.Tensor], env: int = 0) -> list[float]:
    """Return the steps that an environment's frames are of, after checking that all groups say the same."""
    length = observation["points"].shape[1]
    found = {
        "policy": observation["policy"].view(NUM_ENVS, length, 2)[env, :, 1],
        "points": observation["points"][env, :, -1, -1].float(),
        "depth": observation["depth"][env, :, 0, -1, -1],
    }
    first, *others = [((values - env) / 10.0).tolist() for values in found.values()]
    assert all(other == first for other in others)
    return first


def test_the_frames_are_those_of_the_last_steps_the_oldest_first() -> None:
    history = ObservationHistory(3, NUM_ENVS, "cpu")
    seen = [history.append(frame(step)) for step in range(5)]
    assert [steps_in(observation) for observation in seen] == [[0, 0, 0], [0, 0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4]]
    shapes = {name: tuple(value.shape) for name, value in seen[-1].items()}
    assert shapes == {"policy": (3, 6), "points": (3, 3, 4, 3), "depth": (3, 3, 1, 5, 6), "critic": (3, 1)}
    assert seen[-1]["points"].dtype == torch.float16


def test_an_episode_begins_with_its_first_frame_and_leaves_the_others_alone() -> None:
    history = ObservationHistory(3, NUM_ENVS, "cpu")
    for step in range(4):
        history.append(frame(step))
    history.reset(torch.tensor([1]))
    observation = history.append(frame(4))
    assert [steps_in(observation, env) for env in range(NUM_ENVS)] == [[2, 3, 4], [4, 4, 4], [2, 3, 4]]
    observation = history.append(frame(5))
    assert [steps_in(observation, env) for env in range(NUM_ENVS)] == [[3, 4, 5], [4, 4, 5], [3, 4, 5]]


def test_the_last_frame_of_an_episode_is_seen_and_not_kept() -> None:
    history = ObservationHistory(2, NUM_ENVS, "cpu")
    history.append(frame(0))
    history.append(frame(1))
    history.reset(torch.tensor([2]))
    last = history.with_last(frame(7))
    assert [steps_in(last, env) for env in range(NUM_ENVS)] == [[1, 7], [1, 7], [7, 7]]
    assert steps_in(history.append(frame(2))) == [1, 2]


@pytest.mark.parametrize("length", [1, 3])
def test_the_newest_frame_is_the_one_that_was_added(length: int) -> None:
    history = ObservationHistory(length, NUM_ENVS, "cpu")
    for step in range(3):
        stacked = history.append(frame(step)) if length > 1 else frame(step)
    newest = newest_frame(stacked, length)
    for name, value in frame(2).items():
        assert torch.equal(newest[name], value), name


def test_a_history_that_there_is_not_is_refused() -> None:
    def check(**fields: Any) -> None:
        PointCloudEnvCfg(decimation=1, episode_length_s=1.0, **fields).check()

    check(history_length=2)
    with pytest.raises(ConfigError, match=r"^env\.history_length=0 "):
        check(history_length=0)
    with pytest.raises(ConfigError, match=r"env\.history_length=2 with obs=state"):
        check(history_length=2, obs="state")
