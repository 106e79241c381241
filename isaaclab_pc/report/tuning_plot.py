# SPDX-License-Identifier: BSD-3-Clause
"""The plot of a tuning: the metric over each setting that was searched."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from isaaclab_pc.cluster.tuning import TuneTrial
from isaaclab_pc.report.drawing import BAD, LINE, SERIES, save_png

_COLUMNS = 3
_RATIO = 9.9
"""Ratio of a setting's largest to its smallest value from which its axis is logarithmic."""

_STYLES = {
    "completed": {"marker": "o", "color": SERIES[0]},
    "stopped early": {"marker": "o", "facecolors": "none", "edgecolors": SERIES[0]},
    "failed": {"marker": "x", "color": BAD},
    "unfinished": {"marker": "o", "color": LINE},
}
"""Marker of a trial by its status; all others are unfinished."""


def save_tuning_plot(trials: Sequence[TuneTrial], best: TuneTrial | None, metric: str, title: str, path: Path) -> None:
    """Draw at least one trial as a PNG file, a panel for each setting; without a score, a trial is at the bottom."""
    names = list(trials[0].values)
    columns = min(len(names), _COLUMNS)
    rows = math.ceil(len(names) / columns)
    scores = [trial.score for trial in trials if trial.score is not None]
    low, high = (min(scores), max(scores)) if scores else (0.0, 1.0)
    margin = 0.08 * ((high - low) or abs(high) or 1.0)

    def draw(figure: Figure) -> None:
        for number, name in enumerate(names, start=1):
            axes = figure.add_subplot(rows, columns, number)
            _draw(axes, trials, best, name, low - margin)
            axes.set(xlabel=name, ylabel=metric, ylim=(low - 2 * margin, high + 2 * margin))
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))

    save_png(draw, path, title, (max(4.2 * columns, 6.4), 3.6 * rows + 0.8))


def _draw(axes: Any, trials: Sequence[TuneTrial], best: TuneTrial | None, name: str, bottom: float) -> None:
    places = _places(axes, [trial.values[name] for trial in trials])
    points: dict[str, list[tuple[float, float]]] = {status: [] for status in _STYLES}
    for place, trial in zip(places, trials, strict=True):
        status = "failed" if trial.status == "storm" else trial.status
        height = bottom if trial.score is None else trial.score
        points.get(status, points["unfinished"]).append((place, height))
        if trial is best:
            axes.scatter(place, height, s=220, marker="*", color=SERIES[1], label="best", zorder=3, alpha=0.8)
    for status, these in points.items():
        if these:
            axes.scatter(*zip(*these, strict=True), s=40, label=status, **_STYLES[status])


def _places(axes: Any, values: Sequence[str]) -> list[float]:
    """Return where values stand on the axis: numbers at themselves, names side by side."""
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        names = sorted(set(values))
        axes.set_xticks(range(len(names)), names)
        axes.set_xlim(-0.5, len(names) - 0.5)
        return [float(names.index(value)) for value in values]
    if min(numbers) > 0 and max(numbers) > _RATIO * min(numbers):
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
    return numbers
