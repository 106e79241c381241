# SPDX-License-Identifier: BSD-3-Clause
"""The file of a run's iterations: what is written, and what is read back after a resume or a full disk."""

import math
from pathlib import Path

from isaaclab_pc.run.iteration_log import ITERATIONS_NAME, Iteration, append_iteration, read_iterations


def append(folder: Path, iteration: int, reward: float) -> None:
    append_iteration(folder, iteration, 10 * iteration, 2.0 * iteration, {"mean_reward": reward, "other": math.nan})


def test_iterations_that_were_repeated_after_a_resume_count_as_they_were_the_last_time(tmp_path: Path):
    for iteration in (1, 2, 3):
        append(tmp_path, iteration, 0.0)
    append(tmp_path, 2, 1.0)
    first, second = Iteration(1, 10, 2.0, {"mean_reward": 0.0}), Iteration(2, 20, 4.0, {"mean_reward": 1.0})
    assert read_iterations(tmp_path) == [first, second], "without what is not finite"


def test_lines_that_are_cut_off_or_say_something_else_are_passed_over(tmp_path: Path):
    append(tmp_path, 1, 0.0)
    file = tmp_path / ITERATIONS_NAME
    file.write_bytes(file.read_bytes() + b'{"iteration": 2, "env_st\n[]\n\xff\n{"iteration": "3"}\n')
    append(tmp_path, 4, 1.0)
    assert [entry.iteration for entry in read_iterations(tmp_path)] == [1, 4]
