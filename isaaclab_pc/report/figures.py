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
    rows = tuple((cause.replace("_", " "), f"{number:,}") for cause, number in run.faults.items())
    numbers = run.faults.values()
    bars = [Bar(name, 0, number, text, SERIES[1]) for (name, text), number in zip(rows, numbers, strict=True)]
    return row_figure("guard", "Episodes that the guard ended", "episodes", bars, (("", "episodes"), rows))


def _time_line(run: RunFacts) -> PageFigure | None:
    """Draw when processes died, and how long the run stood still until the next iteration was done."""
    start = read_time(run.data.started)
    if start is None:
        return None
    spans: list[tuple[str, float, float, str]] = []
    died_at: float | None = None
    for event in run.events:
        if event.time is None or event.name == "restart":
            continue
        at = max((event.time - start).total_seconds(), 0.0)
        if event.name == "recovered" and died_at is not None:
            spans.append(("stood still", died_at, at, _event_text(event)))
            died_at = None
        else:
            spans.append((shortened(event.name), at, at, _event_text(event)))
            died_at = at if event.name == "died" else died_at

    ended = read_time(run.data.ended)
    ends = [1.0, *(end for _, _, end, _ in spans)]
    if ended is not None:
        ends.append((ended - start).total_seconds())
    last = max(ends)
    unit, size = _unit(last)
    is_bad = ("died", "stood still", "gave up")
    bars = [Bar(n, b / size, e / size, text, BAD if n in is_bad else SERIES[0]) for n, b, e, text in spans]
    rows = tuple((name, f"{begin:.4g}", f"{end - begin:.4g}", text) for name, begin, end, text in spans)
    table = (("what", "begin [s]", "duration [s]", ""), rows)
    x_label = f"time from the start [{unit}]"
    key, title = "time-line", "Deaths, restarts and stops"
    return row_figure(key, title, x_label, bars, table, right=1.02 * last / size, text_above=True)


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

    Evaluations of the deterministic policy are marks with their intervals, values of the training lines.

    Args:
        runs: At least one, with their names.
        threshold: Success rate to mark, 0 to 1.
        path: File to write.
    """

    def draw(panels: Any) -> None:
        (by_steps, by_time), (returns, speed) = panels
        successes: tuple[tuple[Any, _Axis], ...] = ((by_steps, "steps"), (by_time, "time"))
        for axes, over in successes:
            x_label, size = _axis(over, runs)
            curves = [curve for series, run in enumerate(runs) for curve in _success_of(run, series, over, size)]
            draw_curves(axes, x_label, "success [%]", curves, y_range="percent", legend=False)
            axes.axhline(100 * threshold, **{**LIMIT, "linewidth": 1})
        for axes, metric, label in ((returns, "mean_reward", "mean return"), (speed, "Perf/total_fps", _PER_SECOND)):
            found = [(series, _curve(run, run.name, metric, "steps", 1)) for series, run in enumerate(runs)]
            curves = [replace(curve, series=series) for series, curves in found for curve in curves]
            draw_curves(axes, _STEPS, f"{label} in training", curves, legend=False)
        handles, labels = by_steps.get_legend_handles_labels()
        by_steps.figure.legend(handles, labels, loc="outside lower center", ncols=min(max(len(labels), 1), 3))

    save_png(draw, path, "Success: marks are evaluations, lines are training", (12, 8), (2, 2))


def _success_of(run: RunFacts, series: int, over: _Axis, size: float) -> list[Curve]:
    """Return a run's success in training as a thin line, and in its evaluations as marks."""
    marks = _evaluations(run.name, run.evaluations, over, size, series)
    lines = _curve(run, "" if marks else run.name, "success_rate", over, size, 100)
    look = {"linewidth": 1, "alpha": 0.5, "marker": ""}
    return [*(replace(line, look=look, series=series) for line in lines), *marks]
