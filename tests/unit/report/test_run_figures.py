# SPDX-License-Identifier: BSD-3-Clause
"""The report's figures: what is written in them covers nothing that is drawn."""

import itertools

import pytest

from isaaclab_pc.num_envs.ledger import Entry, Ledger
from isaaclab_pc.report import run_figures
from isaaclab_pc.report.drawing import draw_svg
from isaaclab_pc.report.run_figures import Curve, curve_figure
from isaaclab_pc.report.search_figures import ledger_figure

GIB = 1 << 30


@pytest.fixture
def drawn(monkeypatch):
    """The axes of the figures that were drawn."""
    kept = []

    def keep(draw, *arguments):
        def draw_and_keep(axes):
            # That of an SVG: places are the same before it is written and after.
            axes.figure.set_dpi(72)
            draw(axes)
            kept.append(axes)

        return draw_svg(draw_and_keep, *arguments)

    monkeypatch.setattr(run_figures, "draw_svg", keep)
    return kept


@pytest.mark.parametrize("letters", [5, 25, 80])
def test_a_legend_stands_above_the_curves_which_keep_their_height(drawn, letters):
    lines = [Curve(f"{index}{'x' * letters}", range(9), [9.0 + index] * 9) for index in range(6)]
    curve_figure("one", "One curve", "x", "y", lines[:1])
    curve_figure("six", "Six curves", "x", "y", lines)
    one, six = drawn
    assert six.get_legend().get_window_extent().y0 >= six.bbox.y1
    assert six.bbox.height > 0.9 * one.bbox.height


@pytest.mark.parametrize("budget", [1.0, 1.9, 2.05, 2.4, 4.0])
def test_the_budget_of_a_ledger_touches_no_text_and_no_bar_of_the_last_row(drawn, budget):
    sizes = {"libraries and runtime": 1.0, "clouds": 0.2, "activations, gradients and the rest": 0.8}
    entries = tuple(Entry(kind, int(size * GIB), None, None) for kind, size in sizes.items())
    ledger_figure("ledger", "Memory", Ledger(32, entries), int(budget * GIB))
    (axes,) = drawn
    texts = [text.get_window_extent() for text in axes.texts]
    (line,) = [line for line in axes.lines if line.get_linestyle() == "--"]
    label, position = texts[-1], line.get_window_extent().x0
    assert not any(a.overlaps(b) for a, b in itertools.combinations(texts, 2))
    assert not any(label.overlaps(bar.get_window_extent()) for bar in axes.patches)
    assert not any(text.x0 < position < text.x1 for text in texts[:-1])
