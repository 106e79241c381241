# SPDX-License-Identifier: BSD-3-Clause
"""The figures of one run and of several, chosen by what their folders hold. Loads matplotlib."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from isaaclab_pc.report.drawing import BAD, SERIES, save_png
from isaaclab_pc.report.film_figures import film_figure
from isaaclab_pc.report.read_run import Event, RunFacts, read_time
from isaaclab_pc.report.run_figures import LIMIT, Bar, Curve, PageFigure, curve_figure, draw_curves, row_figure
from isaaclab_pc.report.search_figures import ledger_figure, memory_figure, speed_figure
from isaaclab_pc.report.words import shortened
from isaaclab_pc.run.record import CurvePoint

_Axis = Literal["steps", "time"]
_Metric = tuple[str, RunFacts, str]
"""Name of a curve, its run, and its metric."""

_Drawing = Callable[[], PageFigure | None]
"""Draws a figure; None where the run has no data for it."""

_GIB = 2**30
_STEPS = "environment steps"
_PER_SECOND = "environment steps per second"
_SPEEDS = {"environment": "Perf/env_fps", "with inference": "Perf/inference_fps", "with the update": "Perf/total_fps"}
_REWARD = "Episode_Reward/"
_MAX_TERMS = 6
"""Reward terms in one figure."""

_FILMS = {
    "first": "First look",
    "last": "Last look",
    "success": "An episode that succeeded",
    "failure": "An episode that failed",
}

_COMPARED: tuple[tuple[str, str, str, _Axis], ...] = (
    ("success_rate", "Success in training", "success [%]", "steps"),
    ("success_rate", "Success in training", "success [%]", "time"),
    ("mean_reward", "Mean return", "return", "steps"),
    ("mean_reward", "Mean return", "return", "time"),
    ("Perf/total_fps", "Speed", _PER_SECOND, "steps"),
)
"""Metric, title, label and horizontal axis of the figures that compare runs."""


def run_figures(run: RunFacts) -> dict[str, list[PageFigure]]:
    """Draw the figures of a run, by section of its page; those that cannot be drawn become problems of the run."""
    trials = [trial for trial in run.trials if trial.num_envs > 0]
    rate = _metric(run, "guard-rate", "Faults over the training", "per million steps", "Guard/per_million_steps")
    drawings: dict[str, list[_Drawing]] = {
        "result": [
            *(partial(_success, run, over) for over in ("steps", "time")),
            *(
                _metric(run, f"return-{over}", f"Mean return over {over}", "return", "mean_reward", over)
                for over in ("steps", "time")
            ),
        ],
        "seen": [
            partial(film_figure, f"seen-{name}", title, run.films[name])
            for name, title in _FILMS.items()
            if name in run.films
        ],
        "learning": _learning(run),
        "speed": [
            partial(_curves, "fps", "Speed", _PER_SECOND, [(name, run, metric) for name, metric in _SPEEDS.items()]),
            partial(_iteration_time, run),
        ],
        "memory": [
            partial(_memory, run, "host", "Host memory over the training"),
            partial(_memory, run, "device", "GPU memory over the training"),
            partial(ledger_figure, run.ledger, run.budget),
            partial(memory_figure, trials, run.data.num_envs),
            partial(speed_figure, trials, run.data.num_envs),
        ],
        "health": [partial(_faults, run), *([rate] if run.faults else []), partial(_time_line, run)],
    }
    return {section: _draw(run, those) for section, those in drawings.items()}


def _draw(run: RunFacts, drawings: Iterable[_Drawing]) -> list[PageFigure]:
    """Draw figures; where a stranger's numbers make one impossible, the run's problems say so."""
    figures = []
    for drawing in drawings:
        try:
            figure = drawing()
        except Exception as error:
            run.problems.append(f"a figure could not be drawn ({type(error).__name__}: {error})")
            continue
        if figure is not None:
            figures.append(figure)
    return figures


def _unit(longest: float) -> tuple[str, float]:
    """Return the unit for times up to the longest one [s], and its seconds."""
    units = (("d", 86400.0), ("h", 3600.0), ("min", 60.0))
    return next((unit for unit in units if longest >= 3 * unit[1]), ("s", 1.0))


def _axis(over: _Axis, runs: Sequence[RunFacts]) -> tuple[str, float]:
    """Return the label of a horizontal axis, and the number of steps or seconds in its unit."""
    if over == "steps":
        return _STEPS, 1.0
    last = [run.curves.wall_s[-1] for run in runs if run.curves is not None]
    unit, seconds = _unit(max([0.0, *last, *(run.data.wall_s for run in runs)]))
    return f"time [{unit}]", seconds


def _curve(run: RunFacts, name: str, metric: str, over: _Axis, size: float, factor: float = 1.0) -> list[Curve]:
    """Return the curve of a metric, or none where it has no value."""
    values = run.curves.metrics.get(metric, []) if run.curves is not None else []
    if run.curves is None or not any(map(math.isfinite, values)):
        return []
    places = run.curves.env_steps if over == "steps" else run.curves.wall_s
    return [Curve(shortened(name), [place / size for place in places], [factor * value for value in values])]


def _curves(
    key: str, title: str, y_label: str, metrics: Sequence[_Metric], over: _Axis = "steps", *, percent: bool = False
) -> PageFigure | None:
    """Draw metrics of one run or of several over steps or time."""
    x_label, size = _axis(over, [run for _, run, _ in metrics])
    factor = 100 if percent else 1
    curves = [curve for name, run, metric in metrics for curve in _curve(run, name, metric, over, size, factor)]
    return curve_figure(key, title, x_label, y_label, curves, y_range="percent" if percent else "data")


def _metric(run: RunFacts, key: str, title: str, y_label: str, metric: str, over: _Axis = "steps") -> _Drawing:
    """Return the drawing of a single metric."""
    return partial(_curves, key, title, y_label, [(y_label or title, run, metric)], over)


def _evaluations(name: str, points: Sequence[CurvePoint], over: _Axis, size: float, series: int) -> list[Curve]:
    """Return the success rates of evaluations with their intervals [%], or none where there is no rate."""
    rated = [(point, success) for point in points if (success := point.evaluation.success) is not None]
    if not rated:
        return []
    places = [(point.env_steps if over == "steps" else point.wall_s) / size for point, _ in rated]
    rates = [100 * success.rate for _, success in rated]
    intervals = [(100 * success.lower, 100 * success.upper) for _, success in rated]
    return [Curve(name, places, rates, intervals, series=series)]


def _success(run: RunFacts, over: _Axis) -> PageFigure | None:
    """Draw the success rate of training, and those of the evaluations."""
    x_label, size = _axis(over, [run])
    in_training = len(run.data.evaluations)
    curves = [
        *_curve(run, "in training", "success_rate", over, size, 100),
        *_evaluations("evaluated in training", run.evaluations[:in_training], over, size, 1),
        *_evaluations("evaluated at the end", run.evaluations[in_training:], over, size, 2),
    ]
    return curve_figure(f"success-{over}", f"Success over {over}", x_label, "success [%]", curves, y_range="percent")


def _learning(run: RunFacts) -> list[_Drawing]:
    """Return the drawings of the reward's terms, and of each loss on its own, as their scales differ."""
    metrics = run.curves.metrics if run.curves is not None else {}
    rewards = [name for name in sorted(metrics) if name.startswith(_REWARD)][:_MAX_TERMS]
    terms = [(name.removeprefix(_REWARD), run, name) for name in rewards]
    drawings: list[_Drawing] = [partial(_curves, "rewards", "Terms of the reward", "sum over an episode", terms)]

    single = [name for name in sorted(metrics) if name.startswith("loss/")]
    single += [name for name in ("learning_rate", "action_std") if len(set(metrics.get(name, ()))) > 1]
    for index, name in enumerate(single):
        title = shortened(name.replace("/", ": ").replace("_", " "))
        drawings.append(_metric(run, f"learning-{index}", title, "", name))
    return drawings


def _iteration_time(run: RunFacts) -> PageFigure | None:
    """Draw rollout and update of each iteration [s]."""
    curves = run.curves
    if curves is None or not {"collect_s", "learn_s"} <= curves.metrics.keys():
        return None
    names = {"rollout": "collect_s", "update": "learn_s"}
    parts = [Curve(name, curves.iterations, curves.metrics[metric]) for name, metric in names.items()]
    return curve_figure("split", "Time of an iteration", "iteration", "seconds", parts, stacked=True)


def _memory(run: RunFacts, place: Literal["host", "device"], title: str) -> PageFigure | None:
    """Draw the memory in use after each iteration, and the search's budget."""
    x_label, size = _axis("time", [run])
    curves = _curve(run, "in use", f"Memory/{place}_bytes", "time", size, 1 / _GIB)
    trial = run.chosen_trial
    budget = None if trial is None else trial.host_budget if place == "host" else trial.device_budget
    if curves and budget is not None:
        places = curves[0].x
        curves.append(Curve("budget", places, [budget / _GIB] * len(places), look=LIMIT))
    return curve_figure(f"memory-{place}", title, x_label, "GiB", curves)


def _faults(run: RunFacts) -> PageFigure | None:
    """Draw the number of episodes that the guard ended, by cause."""
    bars = [Bar(cause.replace("_", " "), 0, n, f"{n:,}", SERIES[1]) for cause, n in run.faults.items()]
    table = (("", "episodes"), tuple((bar.row, bar.text) for bar in bars))
    return row_figure("guard", "Episodes that the guard ended", "episodes", bars, table)


def _time_line(run: RunFacts) -> PageFigure | None:
    """Draw when processes died, and how long the run stood still until the next iteration was done."""
    start = read_time(run.data.started)
    if start is None:
        return None
    bars: list[Bar] = []
    died_at: float | None = None
    for event in run.events:
        if event.time is None or event.name == "restart":
            continue
        at = max((event.time - start).total_seconds(), 0.0)
        if event.name == "recovered" and died_at is not None:
            bars.append(Bar("stood still", died_at, at, _event_text(event), BAD))
            died_at = None
        else:
            color = BAD if event.name in ("died", "gave up") else SERIES[0]
            bars.append(Bar(shortened(event.name), at, at, _event_text(event), color))
            died_at = at if event.name == "died" else died_at

    ended = read_time(run.data.ended) or start
    last = max(1.0, (ended - start).total_seconds(), *(bar.end for bar in bars))
    unit, size = _unit(last)
    scaled = [replace(bar, begin=bar.begin / size, end=bar.end / size) for bar in bars]
    rows = tuple((bar.row, f"{bar.begin:.4g}", f"{bar.end - bar.begin:.4g}", bar.text) for bar in bars)
    table = (("what", "begin [s]", "duration [s]", ""), rows)
    title = "Deaths, restarts and stops"
    x_label = f"time from the start [{unit}]"
    return row_figure("time-line", title, x_label, scaled, table, right=1.02 * last / size, text_above=True)


def _event_text(event: Event) -> str:
    """Return the fact of an event that a figure has room for."""
    if event.name == "recovered" and isinstance(seconds := event.facts.get("seconds"), (int, float)):
        return f"{seconds:.0f} s"
    return shortened(event.facts.get("cause" if event.name == "died" else "signal", ""))


def comparison_figures(runs: Sequence[RunFacts]) -> list[PageFigure]:
    """Draw at most six runs, with their names, into the same figures."""
    drawings: list[_Drawing] = [partial(_final_success, runs)]
    for metric, title, y_label, over in _COMPARED:
        key = f"{metric.rpartition('/')[2]}-{over}"
        metrics = [(run.name, run, metric) for run in runs]
        percent = metric == "success_rate"
        drawings.append(partial(_curves, key, f"{title} over {over}", y_label, metrics, over, percent=percent))
    return _draw(runs[0], drawings)


def _final_success(runs: Sequence[RunFacts]) -> PageFigure | None:
    """Draw the success of each run that was evaluated at its end."""
    found = [(run.name, run.data.evaluation.success) for run in runs if run.data.evaluation is not None]
    bars, rows = [], []
    for index, (name, success) in enumerate(found):
        if success is not None:
            rate, lower, upper = 100 * success.rate, 100 * success.lower, 100 * success.upper
            bars.append(Bar(name, lower, upper, color=SERIES[index % len(SERIES)], value=rate))
            rows.append((name, f"{rate:.4g}", f"{lower:.4g} to {upper:.4g}"))
    table = (("run", "success [%]", "95 % interval"), tuple(rows))
    return row_figure("success", "Success at the end", "success [%]", bars, table, right=103)


def save_comparison_plot(runs: Sequence[RunFacts], threshold: float, path: Path) -> None:
    """Draw runs as a PNG file: success over steps and over time, return over steps, and speed.

    Evaluations of the deterministic policy are marks with their intervals, values of the training lines. A line marks
    the success rate ``threshold``, 0 to 1.
    """

    def draw(panels: Any) -> None:
        drawn = [figure for figure in _COMPARED if "success_rate" in figure or "steps" in figure]
        for axes, (metric, _, y_label, over) in zip(panels.flat, drawn, strict=True):
            x_label, size = _axis(over, runs)
            curves = [c for series, run in enumerate(runs) for c in _compared(series, run, metric, over, size)]
            is_success = metric == "success_rate"
            draw_curves(axes, x_label, y_label, curves, y_range="percent" if is_success else "data", legend=False)
            if is_success:
                axes.axhline(100 * threshold, **{**LIMIT, "linewidth": 1})
        handles, labels = panels.flat[0].get_legend_handles_labels()
        columns = min(max(len(labels), 1), 3)
        panels.flat[0].figure.legend(handles, labels, loc="outside lower center", ncols=columns)

    save_png(draw, path, "Success: marks are evaluations, lines are training", (12, 8), (2, 2))


def _compared(series: int, run: RunFacts, metric: str, over: _Axis, size: float) -> list[Curve]:
    """Return a run's metric in training as a line; success as a thin one, beside marks of its evaluations."""
    is_success = metric == "success_rate"
    marks = _evaluations(run.name, run.evaluations, over, size, series) if is_success else []
    lines = _curve(run, "" if marks else run.name, metric, over, size, 100 if is_success else 1)
    look = {"linewidth": 1, "alpha": 0.5, "marker": ""} if is_success else {}
    return [*(replace(line, look=look, series=series) for line in lines), *marks]
