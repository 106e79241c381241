# SPDX-License-Identifier: BSD-3-Clause
"""The figures of one run and of several, chosen by what their folders hold. Loads matplotlib."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple

from isaaclab_pc.report.curves import Curve, PageFigure, curve_figure
from isaaclab_pc.report.drawing import BAD
from isaaclab_pc.report.film_figures import film_figure
from isaaclab_pc.report.films import FILMS
from isaaclab_pc.report.read_run import RunFacts
from isaaclab_pc.report.search_figures import search_figure
from isaaclab_pc.report.words import shortened
from isaaclab_pc.run.record import CurvePoint

_Over = Literal["steps", "time"]
_Drawing = Callable[[], PageFigure | None]
"""Draws a figure; None where the run has no data for it."""

_GIB = 2**30
_PER_SECOND = "environment steps per second"
_SPEEDS = {"environment": "Perf/env_fps", "with inference": "Perf/inference_fps", "with the update": "Perf/total_fps"}
_TIMES = {"rollout": "collect_s", "update": "learn_s"}
_REWARD = "Episode_Reward/"
_MAX_TERMS = 6
"""Reward terms in one figure."""

_COMPARED: tuple[tuple[str, str, str, _Over], ...] = (
    ("success_rate", "Success", "success [%]", "steps"),
    ("success_rate", "Success", "success [%]", "time"),
    ("mean_reward", "Mean return", "return", "steps"),
    ("Perf/total_fps", "Speed", _PER_SECOND, "steps"),
    ("mean_reward", "Mean return", "return", "time"),
)
"""Metric, title, label and horizontal axis of the figures that compare runs."""


class _Axis(NamedTuple):
    """The horizontal axis of curves."""

    field: Literal["env_steps", "wall_s"]
    """Field of :class:`Iteration` and :class:`CurvePoint`."""
    label: str
    unit: float
    """Steps or seconds."""


def run_figures(run: RunFacts) -> dict[str, list[PageFigure]]:
    """Draw the figures of a run, by section of its page; those that cannot be drawn become problems of the run."""
    returns = {"return": "mean_reward"}
    rate = {"faults": "Guard/per_million_steps"} if run.faults else {}
    drawings: dict[str, list[_Drawing]] = {
        "result": [
            partial(_success, run, "steps"),
            partial(_success, run, "time"),
            partial(_metrics, run, "return-steps", "Mean return over steps", "return", returns),
            partial(_metrics, run, "return-time", "Mean return over time", "return", returns, "time"),
        ],
        "seen": [
            partial(film_figure, f"seen-{name}", title, run.films[name])
            for name, title in FILMS.items()
            if name in run.films
        ],
        "learning": _learning(run),
        "speed": [
            partial(_metrics, run, "fps", "Speed", _PER_SECOND, _SPEEDS),
            partial(_metrics, run, "split", "Time of an iteration", "seconds", _TIMES),
        ],
        "memory": [
            partial(_memory, run, "host", "Host memory over the training"),
            partial(_memory, run, "device", "GPU memory over the training"),
            partial(search_figure, run.trials, run.data.num_envs),
        ],
        "health": [partial(_metrics, run, "guard-rate", "Faults over the training", "per million steps", rate)],
    }
    return {section: _draw(run, those) for section, those in drawings.items()}


def _draw(run: RunFacts, drawings: Sequence[_Drawing]) -> list[PageFigure]:
    """Draw figures; where a stranger's numbers make one impossible, the run's problems say so."""
    figures = []
    for drawing in drawings:
        try:
            figures.append(drawing())
        except Exception as error:
            run.problems.append(f"a figure could not be drawn ({type(error).__name__}: {error})")
    return [figure for figure in figures if figure is not None]


def _axis(over: _Over, runs: Sequence[RunFacts]) -> _Axis:
    if over == "steps":
        return _Axis("env_steps", "environment steps", 1.0)
    longest = max(0.0, *(run.data.wall_s for run in runs))
    units = {"d": 86400.0, "h": 3600.0, "min": 60.0}
    name, unit = next(((name, unit) for name, unit in units.items() if longest >= 3 * unit), ("s", 1.0))
    return _Axis("wall_s", f"time [{name}]", unit)


def _curve(run: RunFacts, name: str, metric: str, axis: _Axis, factor: float = 1.0) -> Curve | None:
    """Return the curve of a metric; None where it has no value."""
    values = run.metric(metric)
    if not any(map(math.isfinite, values)):
        return None
    places = [getattr(entry, axis.field) / axis.unit for entry in run.iterations]
    return Curve(shortened(name), places, [factor * value for value in values])


def _evaluations(name: str, points: Sequence[CurvePoint], axis: _Axis, series: int) -> Curve | None:
    """Return the success rates of evaluations with their intervals [%]; None where there is no rate."""
    rated = [(point, success) for point in points if (success := point.evaluation.success) is not None]
    if not rated:
        return None
    places = [getattr(point, axis.field) / axis.unit for point, _ in rated]
    rates = [100 * success.rate for _, success in rated]
    intervals = [(100 * success.lower, 100 * success.upper) for _, success in rated]
    return Curve(name, places, rates, intervals, series=series)


def _metrics(
    run: RunFacts, key: str, title: str, y_label: str, metrics: Mapping[str, str], over: _Over = "steps"
) -> PageFigure | None:
    axis = _axis(over, [run])
    curves = [_curve(run, name, metric, axis) for name, metric in metrics.items()]
    return curve_figure(key, title, axis.label, y_label, curves)


def _success(run: RunFacts, over: _Over) -> PageFigure | None:
    axis = _axis(over, [run])
    in_training = len(run.data.evaluations)
    curves = [
        _curve(run, "in training", "success_rate", axis, 100),
        _evaluations("evaluated in training", run.evaluations[:in_training], axis, 1),
        _evaluations("evaluated at the end", run.evaluations[in_training:], axis, 2),
    ]
    return curve_figure(f"success-{over}", f"Success over {over}", axis.label, "success [%]", curves, percent=True)


def _learning(run: RunFacts) -> list[_Drawing]:
    """Return the drawings of the reward's terms, and of each loss on its own, as their scales differ."""
    rewards = [name for name in run.metric_names if name.startswith(_REWARD)][:_MAX_TERMS]
    terms = {name.removeprefix(_REWARD): name for name in rewards}
    drawings: list[_Drawing] = [partial(_metrics, run, "rewards", "Terms of the reward", "sum over an episode", terms)]

    single = [name for name in run.metric_names if name.startswith("loss/")]
    single += [name for name in ("learning_rate", "action_std") if len(set(run.metric(name))) > 1]
    for index, name in enumerate(single):
        title = shortened(name.replace("/", ": ").replace("_", " "))
        drawings.append(partial(_metrics, run, f"learning-{index}", title, "value", {title: name}))
    return drawings


def _memory(run: RunFacts, place: Literal["host", "device"], title: str) -> PageFigure | None:
    axis = _axis("time", [run])
    used = _curve(run, "in use", f"Memory/{place}_bytes", axis, 1 / _GIB)
    trial = run.chosen_trial
    budget = None if trial is None else trial.host_budget if place == "host" else trial.device_budget
    limit = None
    if used is not None and budget is not None:
        look = {"color": BAD, "linestyle": "--", "marker": ""}
        limit = Curve("budget", used.x, [budget / _GIB] * len(used.x), look=look)
    return curve_figure(f"memory-{place}", title, axis.label, "GiB", [used, limit])


def comparison_figures(runs: Sequence[RunFacts]) -> list[PageFigure]:
    """Draw runs, with their names, into the same figures."""
    drawings = [partial(_comparison, runs, *compared) for compared in _COMPARED]
    return _draw(runs[0], drawings)


def _comparison(runs: Sequence[RunFacts], metric: str, title: str, y_label: str, over: _Over) -> PageFigure | None:
    axis = _axis(over, runs)
    key = f"{metric.rpartition('/')[2]}-{over}"
    curves = _compared(runs, metric, axis)
    return curve_figure(key, f"{title} over {over}", axis.label, y_label, curves, percent=metric == "success_rate")


def _compared(runs: Sequence[RunFacts], metric: str, axis: _Axis) -> list[Curve]:
    """Return a metric of each run in training as a line; success as a thin one, beside marks of its evaluations."""
    curves = []
    for series, run in enumerate(runs):
        marks = _evaluations(run.name, run.evaluations, axis, series) if metric == "success_rate" else None
        line = _curve(run, run.name, metric, axis, 100 if metric == "success_rate" else 1)
        if line is not None and marks is not None:
            # One of the two is enough for the legend.
            look = {"linewidth": 1, "alpha": 0.5, "marker": "", "label": None}
            line = replace(line, name=f"{run.name}, in training", look=look)
        curves += [replace(line, series=series)] if line is not None else []
        curves += [marks] if marks is not None else []
    return curves
