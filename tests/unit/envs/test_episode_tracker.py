# SPDX-License-Identifier: BSD-3-Clause
import copy

import pytest
import torch

from isaaclab_pc.envs.episode_tracker import EpisodeTracker

NOBODY = torch.zeros(3, dtype=torch.bool)


def run(tracker: EpisodeTracker, success: list[list[bool]]) -> None:
    for succeeds in success:
        tracker.record_step(torch.tensor(succeeds))
        tracker.add_rewards(("reach",), torch.tensor([[1.0, 2.0, 3.0]]))


def test_results_of_other_episodes_are_forgotten(tracker: EpisodeTracker) -> None:
    run(tracker, [[True, False, False]])
    tracker.finish(torch.arange(3), NOBODY)
    before = copy.deepcopy(tracker)
    expected = tracker.metrics(1.0)
    run(tracker, [[True] * 3] * 4)
    tracker.finish(torch.arange(3), NOBODY)
    assert tracker.metrics(1.0) != expected
    tracker.take_results(before)
    assert tracker.metrics(1.0) == expected


@pytest.fixture
def tracker() -> EpisodeTracker:
    return EpisodeTracker(3, 0.1, "cpu")


def test_an_episode_is_a_success_if_its_last_step_is_and_the_time_is_that_of_the_first(tracker: EpisodeTracker) -> None:
    run(tracker, [[False] * 3, [True, True, False], [True, False, False]])
    tracker.finish(torch.arange(3), NOBODY)
    assert tracker.success.tolist() == [True, False, False]
    torch.testing.assert_close(tracker.time_to_success, torch.tensor([0.2, 0.2, float("nan")]), equal_nan=True)
    metrics = tracker.metrics(max_length_s=2.0)
    assert metrics["Metrics/success_rate"] == pytest.approx(1 / 3)
    # Of the episodes that succeeded only.
    assert metrics["Metrics/time_to_success"] == pytest.approx(0.2)
    assert metrics["Episode_Reward/reach"] == pytest.approx(3 * 2.0 / 2.0)


def test_what_counts_is_the_last_finished_episode_of_each_environment(tracker: EpisodeTracker) -> None:
    assert tracker.metrics(1.0)["Metrics/success_rate"].isnan()
    run(tracker, [[True, False, False]])
    tracker.finish(torch.tensor([0, 1]), NOBODY)
    assert tracker.metrics(1.0)["Metrics/success_rate"] == 0.5
    run(tracker, [[False, True, False]])
    tracker.finish(torch.tensor([1]), NOBODY)
    assert tracker.metrics(1.0)["Metrics/success_rate"] == 1.0
    tracker.finish(torch.tensor([1]), NOBODY)
    assert tracker.metrics(1.0)["Metrics/success_rate"] == 1.0, "a reset right after a reset ends no episode"


def test_rewards_are_means_of_the_episodes_that_count(tracker: EpisodeTracker) -> None:
    run(tracker, [[True] * 3] * 4)
    tracker.finish(torch.tensor([1]), NOBODY)
    assert tracker.metrics(2.0)["Episode_Reward/reach"] == 4 * 2.0 / 2.0, "the other two have not ended an episode"

    run(tracker, [[True] * 3])
    tracker.finish(torch.tensor([0, 1]), torch.tensor([False, True, False]))
    assert tracker.metrics(2.0)["Episode_Reward/reach"] == 5 * 1.0 / 2.0, "a benched one has no result"


def test_what_is_marked_failed_is_a_failure(tracker: EpisodeTracker) -> None:
    run(tracker, [[True, True, True]])
    tracker.finish(torch.arange(3), NOBODY)
    tracker.mark_failed(torch.tensor([False, True, False]))
    assert tracker.success.tolist() == [True, False, True]
    assert tracker.time_to_success.isnan().tolist() == [False, True, False]


def test_terms_are_summed_in_tensors_of_the_trackers_own(tracker: EpisodeTracker) -> None:
    terms = torch.ones(1, 3)
    tracker.record_step(torch.ones(3, dtype=torch.bool))
    tracker.add_rewards(("reach",), terms)
    tracker.finish(torch.arange(3), NOBODY)
    assert terms.tolist() == [[1.0, 1.0, 1.0]]
