# SPDX-License-Identifier: BSD-3-Clause
"""Names of folders stand in figures as they are, whatever they begin with or hold."""

from matplotlib.figure import Figure
from matplotlib.image import imread

from isaaclab_pc.viz import comparison_plot
from isaaclab_pc.viz.comparison_plot import ComparedCurves, EvaluationPoint
from isaaclab_pc.viz.drawing import png_figure
from isaaclab_pc.viz.run_curves import RunCurves
from isaaclab_pc.viz.run_figures import Interval, Line, curve_figure


def test_what_a_page_compares_is_in_its_legend():
    lines = [Line("_old", [1, 2], [0.5, 1.0]), Line("_new", [1, 2], [0.25, 0.5])]
    figure = curve_figure("success", "Success", "x", "y", lines, [Interval("_end", 2, 0.5, 0.4, 0.6)])
    assert all(name in figure.svg for name in ("_old", "_new", "_end"))


def test_what_a_picture_compares_is_in_its_legend():
    curves = RunCurves([1], [100], [1.0], {"success_rate": [0.5], "mean_reward": [1.0]})
    point = EvaluationPoint(100, 1.0, 0.5, 0.4, 0.6)
    runs = [ComparedCurves(name, curves, [point], (1.0, 2.0, None)) for name in ("_old", "new")]
    figure = Figure()
    comparison_plot._draw(figure, runs, threshold=0.9)
    (legend,) = figure.legends
    assert [text.get_text().strip() for text in legend.get_texts()] == ["_old", "new"]


def test_a_dollar_sign_in_a_headline_is_no_formula(tmp_path):
    with png_figure(tmp_path / "a.png", (2, 1)) as figure:
        figure.suptitle("$x_{1$")
        figure.subplots().set(xlabel="$\\frac{")
    assert imread(tmp_path / "a.png").shape == (120, 240, 4)
