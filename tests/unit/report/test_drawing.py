# SPDX-License-Identifier: BSD-3-Clause
"""Names of folders stand in figures as they are, whatever they begin with or hold."""

import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from isaaclab_pc.report.drawing import BAD, save_png
from isaaclab_pc.report.run_figures import Curve, curve_figure, draw_curves

CURVES = [
    Curve("_old", [1, 2], [0.5, 1.0]),
    Curve("new", [1, 2], [0.25, 0.5]),
    Curve("_end", [2], [0.5], [(0.4, 0.6)]),
]


def test_every_curve_is_in_the_legend():
    axes = Figure().subplots()
    draw_curves(axes, "x", "y", CURVES)
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text().strip() for text in legend.get_texts()] == ["_old", "new", "_end"]
    assert "_old" in curve_figure("success", "Success", "x", "y", CURVES).svg


def test_up_to_36_curves_are_told_apart():
    axes = Figure().subplots()
    draw_curves(axes, "x", "y", [Curve(str(index), [0.0, 1.0], [0.0, 1.0]) for index in range(36)])
    assert len({(line.get_color(), str(line.get_linestyle())) for line in axes.lines}) >= 24


@pytest.mark.parametrize("name", ["$x_{1$", "$\\frac{"])
def test_a_dollar_sign_is_no_formula_and_a_file_has_its_own_colours(tmp_path, name):
    save_png(lambda panels: panels[0, 0].plot([0, 1], color=BAD, label=name), tmp_path / "a.png", name, (3, 2))
    pixels = imread(tmp_path / "a.png")
    assert pixels.shape == (240, 360, 4)
    assert (abs(pixels[..., :3] * 255 - (0xB3, 0x26, 0x1E)).max(axis=-1) < 2).sum() > 50
