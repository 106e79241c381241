# SPDX-License-Identifier: BSD-3-Clause
"""A run's curves: one value for each iteration, whatever each of them reported."""

import math
from pathlib import Path

from isaaclab_pc.report.run_curves import RunCurves, read_run_curves
from isaaclab_pc.run.iteration_log import append_iteration


def test_a_metric_that_an_iteration_did_not_report_is_nan_there(tmp_path: Path):
    append_iteration(tmp_path, 1, 64, 1.5, {"collect_s": 1.0, "success_rate": math.nan})
    append_iteration(tmp_path, 2, 128, 3.0, {"collect_s": 2.0, "success_rate": 0.25})
    curves = read_run_curves(tmp_path)
    assert (curves.iterations, curves.env_steps, curves.wall_s) == ([1, 2], [64, 128], [1.5, 3.0])
    assert curves.metrics["collect_s"] == [1.0, 2.0]
    first, second = curves.metrics["success_rate"]
    assert math.isnan(first)
    assert second == 0.25


def test_a_run_without_iterations_has_empty_curves(tmp_path: Path):
    assert read_run_curves(tmp_path) == RunCurves([], [], [], {})
