# SPDX-License-Identifier: BSD-3-Clause
"""``policy.json`` tells how much the cameras saw."""

from typing import Any

import numpy as np
import pytest

from isaaclab_pc.export.policy_description import describe_sight


def test_the_least_that_was_seen_is_told() -> None:
    content: dict[str, Any] = {"inputs": [{"name": "points"}], "cameras": {"camera": {"miss_from": 5.0}}, "cloud": {}}
    frames = [
        {"depth_camera": np.array([[1.0, 2.0], [0.0, np.inf]]), "count": np.array(7)},
        {"depth_camera": np.array([[1.0, 3.0], [4.0, np.nan]]), "count": np.array(3)},
    ]
    removed = np.array([[False, False], [True, True]])
    describe_sight(content, [{**frame, "removed_camera": removed} for frame in frames])
    assert content["cameras"]["camera"] == {"miss_from": 5.0, "least_seen": 0.5, "median_depth": [1.5, 3.0]}
    assert content["cloud"] == {"least_points": 3}


@pytest.mark.parametrize(("max_depth", "least_seen"), [(2.5, 0.5), (9.0, 0.75), (0.5, 0.0)])
def test_depths_that_a_policy_does_not_read_are_not_seen(max_depth: float, least_seen: float) -> None:
    content: dict[str, Any] = {"inputs": [{"name": "depth", "max_depth": max_depth}]}
    content["cameras"] = {"camera": {"miss_from": 5.0}}
    describe_sight(content, [{"depth_camera": np.array([[1.0, 2.0], [4.0, 6.0]])}])
    assert content["cameras"]["camera"]["least_seen"] == least_seen
    assert ("median_depth" in content["cameras"]["camera"]) == (least_seen > 0.0)


def test_a_policy_of_the_state_sees_nothing() -> None:
    content: dict[str, Any] = {"inputs": [{"name": "policy"}]}
    describe_sight(content, [{}])
    assert content == {"inputs": [{"name": "policy"}]}
