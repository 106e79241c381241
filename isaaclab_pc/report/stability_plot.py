# SPDX-License-Identifier: BSD-3-Clause
"""The picture of a stability measurement: failures, the expert's success and cost over the physics settings."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from isaaclab_pc.physics.stability import Cell
from isaaclab_pc.report.drawing import GOOD, INK, save_png

_MARK = {"linestyle": "", "markersize": 12, "markeredgewidth": 2, "markerfacecolor": "none"}


def save_stability_plot(cells: Sequence[Cell], chosen: Cell | None, title: str, path: Path) -> None:
    """Draw failures, success and cost of at least one setting over the solver's iterations, a curve for each time step.

    Where no failure was seen, a bar reaches to the 95 % bound. A cross marks a setting with a note, such as dropped
    contacts; one that crashed is missing. The chosen one gets a ring.
    """
    names = list(dict.fromkeys(name for cell in cells for name in cell.settings))
    across = "position_iterations" if "position_iterations" in names or not names else names[0]
    other = next((name for name in names if name != across), "")
    measured = sorted((cell for cell in cells if cell.env_steps), key=lambda cell: cell.settings.get(across, 0))
    values = {
        "failures per million env steps, 95 % bound": lambda cell: cell.failures_per_million,
        "expert's success [%]": lambda cell: 100 * (cell.success or 0.0),
        "seconds per 1000 env steps": lambda cell: cell.cost,
    }
    if all(cell.success is None for cell in cells):
        del values["expert's success [%]"]
    unusable = [cell for cell in measured if cell.note]
    marks = (("unusable", "x", INK, unusable), ("cheapest stable", "o", GOOD, [chosen] if chosen else []))

    def draw(figure: Figure) -> None:
        for panel, (label, value) in enumerate(values.items()):
            axes = figure.add_subplot(1, len(values), panel + 1)
            axes.set(xlabel=across.replace("_", " "), ylabel=label)
            for setting in dict.fromkeys(cell.settings.get(other) for cell in measured):
                curve = [cell for cell in measured if cell.settings.get(other) == setting]
                bars = [(cell.upper_bound_per_million or 0.0) if panel == 0 else 0.0 for cell in curve]
                name = None if setting is None else f"{other} {setting:.4g}"
                x = [cell.settings.get(across, 0) for cell in curve]
                axes.errorbar(x, [*map(value, curve)], yerr=([0.0] * len(curve), bars), marker="o", label=name)
            for name, marker, color, marked in marks:
                if marked:
                    x = [cell.settings.get(across, 0) for cell in marked]
                    axes.plot(x, [*map(value, marked)], marker=marker, color=color, label=name, **_MARK)
            axes.set_ylim(0, 1.05 * axes.get_ylim()[1])

        failures = figure.axes[0]
        failures.set_yscale("symlog", linthresh=10)
        failures.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        failures.set_ylim(bottom=-1)
        handles, labels = failures.get_legend_handles_labels()
        if labels:
            figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))

    save_png(draw, path, title, (4.6 * len(values), 4.0))
