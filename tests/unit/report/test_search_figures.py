# SPDX-License-Identifier: BSD-3-Clause
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from isaaclab_pc.num_envs.trial import Outcome, Trial
from isaaclab_pc.report.search_figures import save_search_plot

GIB = 2**30


def trial(num_envs: int, outcome: Outcome = Outcome.FITS, *, on_gpu: bool = False) -> Trial:
    size = GIB + num_envs * 2**20
    device, device_budget = (size, 2 * GIB) if on_gpu else (None, None)
    speed = 1000.0 * num_envs / (num_envs + 50) if outcome is Outcome.FITS else 0.0
    return Trial(
        num_envs,
        outcome,
        speed,
        host_bytes=size,
        host_budget=2 * GIB,
        device_bytes=device,
        device_budget=device_budget,
    )


@pytest.mark.parametrize("on_gpu", [False, True])
def test_trials_that_fit_and_that_do_not_are_drawn_in_their_colours(tmp_path: Path, on_gpu: bool) -> None:
    trials = [trial(n, on_gpu=on_gpu) for n in (32, 64, 512)] + [trial(2048, Outcome.OVER_BUDGET, on_gpu=on_gpu)]
    save_search_plot(trials, 512, "lift", tmp_path / "memory.png")
    pixels = imread(tmp_path / "memory.png")[..., :3].reshape(-1, 3)
    for name, color in {"fits": (0x00, 0x67, 0xA5), "fails": (0xB3, 0x26, 0x1E), "chosen": (0x00, 0x71, 0x4F)}.items():
        near = np.abs(pixels - np.array(color) / 255).max(axis=1) < 0.02
        assert near.sum() > 50, name


def test_a_single_trial_has_no_line_and_is_drawn(tmp_path: Path) -> None:
    save_search_plot([trial(64)], 64, "lift", tmp_path / "memory.png")
    assert (tmp_path / "memory.png").stat().st_size > 10_000
