# SPDX-License-Identifier: BSD-3-Clause
import pytest
import torch

from isaaclab_pc.envs.episode_log import EpisodeLog

NOBODY = torch.zeros(3, dtype=torch.bool)


def run(log: EpisodeLog, success: list[list[bool]], first_step: int = 1) -> torch.Tensor:
    """Play steps; return the steps since the start."""
    steps = torch.zeros(3)
    for index, succeeds in enumerate(success):
        steps = torch.full((3,), float(first_step + index))
        log.succeeds = torch.tensor(succeeds)
        log.note_success(steps)
        log.add_rewards({"reach": torch.tensor([1.0, 2.0, 3.0])})
    return steps


@pytest.fixture
def log() -> EpisodeLog:
    return EpisodeLog(3, 0.1, "cpu")


def test_an_episode_is_a_success_if_its_last_step_is_and_the_time_is_that_of_the_first(log: EpisodeLog) -> None:
    steps = run(log, [[False] * 3, [True, True, False], [True, False, False]])
    log.finish(torch.arange(3), steps, NOBODY)
    assert log.success.tolist() == [True, False, False]
    torch.testing.assert_close(log.time_to_success, torch.tensor([0.2, 0.2, float("nan")]), equal_nan=True)
    metrics = log.metrics(max_length_s=2.0)
    assert metrics["Metrics/success_rate"] == pytest.approx(1 / 3)
    # Of the episodes that succeeded only.
    assert metrics["Metrics/time_to_success"] == pytest.approx(0.2)
    assert metrics["Episode_Reward/reach"] == pytest.approx(3 * 2.0 / 2.0)


def test_what_counts_is_the_last_finished_episode_of_each_environment(log: EpisodeLog) -> None:
    assert log.metrics(1.0)["Metrics/success_rate"].isnan()
    steps = run(log, [[True, False, False]])
    log.finish(torch.tensor([0, 1]), steps, NOBODY)
    assert log.metrics(1.0)["Metrics/success_rate"] == 0.5
    steps = run(log, [[False, True, False]])
    log.finish(torch.tensor([1]), steps, NOBODY)
    assert log.metrics(1.0)["Metrics/success_rate"] == 1.0
    log.finish(torch.tensor([1]), torch.zeros(3), NOBODY)
    assert log.metrics(1.0)["Metrics/success_rate"] == 1.0, "a reset right after a reset ends no episode"


def test_a_benched_environment_has_no_result_and_what_is_taken_back_is_a_failure(log: EpisodeLog) -> None:
    steps = run(log, [[True, True, True]])
    log.finish(torch.arange(3), steps, torch.tensor([True, False, False]))
    assert log.metrics(1.0)["Metrics/success_rate"] == 1.0
    log.take_back(torch.tensor([False, True, False]))
    assert log.success.tolist() == [True, False, True]
    assert log.time_to_success.isnan().tolist() == [False, True, False]
