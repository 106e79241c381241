# SPDX-License-Identifier: BSD-3-Clause
"""The plot of a tuning: the metric over each setting that was searched."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

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
    "best": {"marker": "*", "color": SERIES[1], "s": 220, "zorder": 3, "alpha": 0.8},
}
"""Marker of a trial by its status; all others are unfinished."""


def save_tuning_plot(trials: Sequence[TuneTrial], best: TuneTrial | None, metric: str, title: str, path: Path) -> None:
    """Draw at least one trial as a PNG file, a panel for each setting; without a score, a trial is at the bottom."""
    names = list(trials[0].values)
    columns = min(len(names), _COLUMNS)
    rows = math.ceil(len(names) / columns)
    bottom = min((trial.score for trial in trials if trial.score is not None), default=0.0)
    groups: dict[str, list[TuneTrial]] = {label: [] for label in _STYLES}
    for trial in trials:
        status = "failed" if trial.status == "storm" else trial.status
        groups[status if status in _STYLES else "unfinished"].append(trial)
    if best is not None:
        groups["best"].append(best)

    def draw(figure: Figure) -> None:
        for number, name in enumerate(names, start=1):
            axes = figure.add_subplot(rows, columns, number)
            places = _places(axes, [trial.values[name] for trial in trials])
            for label, group in groups.items():
                x = [places[trial.values[name]] for trial in group]
                y = [bottom if trial.score is None else trial.score for trial in group]
                axes.scatter(x, y, **{"s": 40, "label": label if group else None, **_STYLES[label]})
            axes.set(xlabel=name, ylabel=metric)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))

    save_png(draw, path, title, (max(4.2 * columns, 6.4), 3.6 * rows + 0.8))


def _places(axes: Any, values: Sequence[str]) -> dict[str, float]:
    """Return where each value stands on the axis: numbers at themselves, names side by side."""
    try:
        numbers = {value: float(value) for value in values}
    except ValueError:
        names = sorted(set(values))
        axes.set_xticks(range(len(names)), names)
        axes.set_xlim(-0.5, len(names) - 0.5)
        return {name: float(place) for place, name in enumerate(names)}
    if min(numbers.values()) > 0 and max(numbers.values()) > _RATIO * min(numbers.values()):
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")
    return numbers
