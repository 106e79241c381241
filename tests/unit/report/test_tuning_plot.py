# SPDX-License-Identifier: BSD-3-Clause
"""The picture of a tuning."""

import pytest

from isaaclab_pc.report.tuning_plot import TuningPoint, save_tuning_plot


@pytest.mark.parametrize("settings", [1, 3, 4])
def test_a_panel_for_each_setting(tmp_path, settings):
    names = ["agent.algorithm.learning_rate", "points.sampler", "points.num_points", "seed"][:settings]
    points = [
        TuningPoint(
            dict(
                zip(names, (f"{10 ** (-3 - i / 4):.2g}", ("fps", "grid")[i % 2], str(128 << i % 3), "1"), strict=False)
            ),
            ("completed", "stopped early", "failed", "interrupted")[i % 4],
            None if i % 4 == 2 else i / 10,
            is_best=i == 8,
        )
        for i in range(10)
    ]
    path = tmp_path / "results.png"
    save_tuning_plot(points, "success_rate", "lift, 10 trials, asha", path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_trials_that_all_failed_are_drawn(tmp_path):
    save_tuning_plot([TuningPoint({"a": "x"}, "failed", None)], "mean_reward", "", tmp_path / "results.png")
    assert (tmp_path / "results.png").stat().st_size > 5_000
