# SPDX-License-Identifier: BSD-3-Clause
"""Figures of a page and PNG files: names stand in them as they are, and cover nothing that is drawn."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from isaaclab_pc.num_envs.trial import Outcome, Trial
from isaaclab_pc.report import curves
from isaaclab_pc.report.curves import Curve, curve_figure, draw_curves
from isaaclab_pc.report.drawing import BAD, draw_svg, save_png
from isaaclab_pc.report.search_figures import save_search_plot

GIB = 2**30
COLORS = {"fits": (0x00, 0x67, 0xA5), "fails": (0xB3, 0x26, 0x1E), "chosen": (0x00, 0x71, 0x4F)}
"""Of a file: the first curve, a failure, the chosen one."""


def pixels_of(path, color):
    """Return how many pixels of a file have a colour."""
    return (np.abs(imread(path)[..., :3] - np.array(COLORS[color]) / 255).max(axis=-1) < 0.01).sum()


@pytest.fixture
def drawn(monkeypatch):
    """The axes of the figures that were drawn."""
    kept = []

    def keep(draw, *arguments):
        def draw_and_keep(figure):
            # That of an SVG: places are the same before it is written and after.
            figure.set_dpi(72)
            draw(figure)
            kept.append(figure.axes[0])

        return draw_svg(draw_and_keep, *arguments)

    monkeypatch.setattr(curves, "draw_svg", keep)
    return kept


def test_every_curve_is_in_the_legend(drawn):
    ends = Curve("_end", [2], [0.5], [(0.4, 0.6)])
    figure = curve_figure("key", "Title", "x", "y", [Curve("_old", [1, 2], [0.5, 1.0]), Curve("new", [1], [0.2]), ends])
    (axes,) = drawn
    assert [text.get_text().strip() for text in axes.get_legend().get_texts()] == ["_old", "new", "_end"]
    assert figure is not None
    assert "_old" in figure.svg


def test_many_curves_are_told_apart():
    axes = Figure().subplots()
    draw_curves(axes, "x", "y", [Curve(str(index), [0.0, 1.0], [0.0, 1.0]) for index in range(36)])
    assert len({(line.get_color(), str(line.get_linestyle())) for line in axes.lines}) >= 24


@pytest.mark.parametrize("letters", [5, 25, 80])
def test_a_legend_stands_above_the_curves_which_keep_their_height(drawn, letters):
    lines = [Curve(f"{index}{'x' * letters}", range(9), [9.0 + index] * 9) for index in range(6)]
    curve_figure("one", "One curve", "x", "y", lines[:1])
    curve_figure("six", "Six curves", "x", "y", lines)
    one, six = drawn
    assert six.get_legend().get_window_extent().y0 >= six.bbox.y1
    assert six.bbox.height > 0.9 * one.bbox.height


@pytest.mark.parametrize("name", ["$x_{1$", "$\\frac{"])
def test_a_dollar_sign_is_no_formula_and_a_file_has_its_own_colours(tmp_path, name):
    save_png(lambda figure: figure.subplots().plot([0, 1], color=BAD, label=name), tmp_path / "a.png", name, (3, 2))
    assert imread(tmp_path / "a.png").shape == (240, 360, 4)
    assert pixels_of(tmp_path / "a.png", "fails") > 50


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
def test_trials_that_fit_and_that_do_not_are_drawn_in_their_colours(tmp_path, on_gpu):
    trials = [trial(n, on_gpu=on_gpu) for n in (32, 64, 512)] + [trial(2048, Outcome.OVER_BUDGET, on_gpu=on_gpu)]
    save_search_plot(trials, 512, "lift", tmp_path / "all.png")
    assert all(pixels_of(tmp_path / "all.png", color) > 50 for color in COLORS)
    save_search_plot(trials[:1], 32, "lift", tmp_path / "one.png")
    assert pixels_of(tmp_path / "one.png", "chosen") > 50
