# SPDX-License-Identifier: BSD-3-Clause
"""The figures of a report, chosen by what the folders of its runs hold. Loads matplotlib."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Concatenate, Literal

from isaaclab_pc.num_envs.trial import Trial
from isaaclab_pc.report.drawing import BAD, SERIES, save_png
from isaaclab_pc.report.film_figures import film_figure, look_figure
from isaaclab_pc.report.read_run import Event, RunFacts, read_time
from isaaclab_pc.report.run_figures import LIMIT, Bar, Curve, PageFigure, curve_figure, draw_curves, row_figure
from isaaclab_pc.report.search_figures import ledger_figure, memory_figure, speed_figure
from isaaclab_pc.report.words import shortened
from isaaclab_pc.run.record import CurvePoint

__all__ = ["comparison_figures", "run_figures", "save_comparison_plot"]

_Axis = Literal["steps", "time"]

_GIB = 2**30
_STEPS = "environment steps"
_PER_SECOND = "environment steps per second"
_SPEEDS = {"environment": "Perf/env_fps", "with inference": "Perf/inference_fps", "with the update": "Perf/total_fps"}
_REWARD = "Episode_Reward/"
_MOST_TERMS = 6
"""Terms of the reward that one figure shows."""

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
"""Metric, title and label of the figures in which runs are compared."""


def _tolerant[**P](draw: Callable[Concatenate[RunFacts, P], PageFigure | None]) -> Callable[..., list[PageFigure]]:
    """Make a drawing return a list: of no figure where numbers of a stranger make it impossible, which is noted."""

    @functools.wraps(draw)
    def tolerant(run: RunFacts, *args: P.args, **kwargs: P.kwargs) -> list[PageFigure]:
        try:
            figure = draw(run, *args, **kwargs)
        except Exception as error:
            run.problems.append(f"a figure could not be drawn ({type(error).__name__}: {error})")
            return []
        return [] if figure is None else [figure]

    return tolerant


def run_figures(run: RunFacts) -> dict[str, list[PageFigure]]:
    """Draw the figures of a run, by the section of its page.

    Args:
        run: The run; its problems get the figures that cannot be drawn.
    """
    returns = [("return", run, "mean_reward")]
    speeds = [(name, run, metric) for name, metric in _SPEEDS.items()]
    rate = [("faults", run, "Guard/per_million_steps")] if run.faults else []
    trials = [trial for trial in run.trials if trial.num_envs > 0]
    fitting = [trial for trial in trials if trial.fits]
    return {
        "result": [
            *_success(run, "steps"),
            *_success(run, "time"),
            *_metrics(run, "return-steps", "Mean return over steps", "return", returns),
            *_metrics(run, "return-time", "Mean return over time", "return", returns, "time"),
        ],
        "seen": [figure for name, title in _FILMS.items() for figure in _film(run, name, title)],
        "learning": _learning(run),
        "speed": [*_metrics(run, "fps", "Speed", _PER_SECOND, speeds), *_split(run)],
        "memory": [
            *_memory(run, "host", "Host memory over the training"),
            *_memory(run, "device", "GPU memory over the training"),
            *_ledger(run),
            *_search(run, memory_figure, "trials-memory", "Memory of the search's trials", trials),
            *_search(run, speed_figure, "trials-speed", "Speed of the search's trials", fitting),
        ],
        "health": [
            *_faults(run),
            *_metrics(run, "guard-rate", "Faults over the training", "per million steps", rate),
            *_time_line(run),
        ],
    }


def _unit(longest: float) -> tuple[str, float]:
    """Return the unit in which times up to the longest one [s] are best drawn, and its seconds."""
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


@_tolerant
def _metrics(
    _: RunFacts,
    key: str,
    title: str,
    y_label: str,
    metrics: Sequence[tuple[str, RunFacts, str]],
    over: _Axis = "steps",
    *,
    percent: bool = False,
) -> PageFigure | None:
    """Draw metrics, each with its name in the figure and its run."""
    x_label, size = _axis(over, [run for _, run, _ in metrics])
    factor = 100 if percent else 1
    curves = [curve for name, run, metric in metrics for curve in _curve(run, name, metric, over, size, factor)]
    return (
        curve_figure(key, title, x_label, y_label, curves, y_range="percent" if percent else "data") if curves else None
    )


def _evaluations(name: str, points: Sequence[CurvePoint], over: _Axis, size: float, series: int) -> list[Curve]:
    """Return the curve of evaluations' success rates with their intervals [%], or none where there is no rate."""
    rated = [(point, success) for point in points if (success := point.evaluation.success) is not None]
    if not rated:
        return []
    places = [(point.env_steps if over == "steps" else point.wall_s) / size for point, _ in rated]
    rates = [100 * success.rate for _, success in rated]
    intervals = [(100 * success.lower, 100 * success.upper) for _, success in rated]
    return [Curve(name, places, rates, intervals, series=series)]


@_tolerant
def _success(run: RunFacts, over: _Axis) -> PageFigure | None:
    """Draw the success rate of training, and those of the evaluations."""
    x_label, size = _axis(over, [run])
    curves = _curve(run, "in training", "success_rate", over, size, 100)
    before = len(run.data.evaluations)
    curves += _evaluations("evaluated in training", run.evaluations[:before], over, size, 1)
    curves += _evaluations("evaluated at the end", run.evaluations[before:], over, size, 2)
    if not curves:
        return None
    return curve_figure(f"success-{over}", f"Success over {over}", x_label, "success [%]", curves, y_range="percent")


@_tolerant
def _film(run: RunFacts, name: str, title: str) -> PageFigure | None:
    """Draw what the policy saw: a look at one frame, or an episode as a strip."""
    film = run.films.get(name)
    if film is None:
        return None
    draw = look_figure if name in ("first", "last") else film_figure
    return draw(f"seen-{name}", title, film)


def _learning(run: RunFacts) -> list[PageFigure]:
    """Draw the reward's terms, and each loss on its own, as their scales differ."""
    metrics = run.curves.metrics if run.curves is not None else {}
    rewards = [name for name in sorted(metrics) if name.startswith(_REWARD)][:_MOST_TERMS]
    terms = [(name.removeprefix(_REWARD), run, name) for name in rewards]
    figures = _metrics(run, "rewards", "Terms of the reward", "sum over an episode", terms)

    single = [name for name in sorted(metrics) if name.startswith("loss/")]
    single += [name for name in ("learning_rate", "action_std") if len(set(metrics.get(name, ()))) > 1]
    for index, name in enumerate(single):
        title = shortened(name.replace("/", ": ").replace("_", " "))
        figures += _metrics(run, f"learning-{index}", title, "", [(title, run, name)])
    return figures


@_tolerant
def _split(run: RunFacts) -> PageFigure | None:
    """Draw where an iteration's time goes."""
    curves = run.curves
    if curves is None or not {"collect_s", "learn_s"} <= curves.metrics.keys():
        return None
    names = {"rollout": "collect_s", "update": "learn_s"}
    parts = [Curve(name, curves.iterations, curves.metrics[metric]) for name, metric in names.items()]
    return curve_figure("split", "Time of an iteration", "iteration", "seconds", parts, stacked=True)


@_tolerant
def _memory(run: RunFacts, place: Literal["host", "device"], title: str) -> PageFigure | None:
    """Draw the memory in use after each iteration, and the budget that the search held the run to."""
    x_label, size = _axis("time", [run])
    curves = _curve(run, "in use", f"Memory/{place}_bytes", "time", size, 1 / _GIB)
    trial = run.chosen_trial
    budget = None if trial is None else trial.host_budget if place == "host" else trial.device_budget
    if curves and budget is not None:
        places = curves[0].x
        curves.append(Curve("budget", places, [budget / _GIB] * len(places), look=LIMIT))
    return curve_figure(f"memory-{place}", title, x_label, "GiB", curves) if curves else None


@_tolerant
def _ledger(run: RunFacts) -> PageFigure | None:
    if run.ledger is None or not run.ledger.entries:
        return None
    return ledger_figure("ledger", f"Memory of {run.ledger.num_envs:,} environments by purpose", run.ledger, run.budget)


@_tolerant
def _search(
    run: RunFacts, draw: Callable[..., PageFigure], key: str, title: str, trials: Sequence[Trial]
) -> PageFigure | None:
    return draw(key, title, trials, run.data.num_envs) if trials else None


@_tolerant
def _faults(run: RunFacts) -> PageFigure | None:
    """Draw what the guard ended, by cause."""
    rows = tuple((cause.replace("_", " "), f"{number:,}") for cause, number in run.faults.items())
    numbers = run.faults.values()
    bars = [Bar(name, 0, number, text, SERIES[1]) for (name, text), number in zip(rows, numbers, strict=True)]
    table = (("", "episodes"), rows)
    return row_figure("guard", "Episodes that the guard ended", "episodes", bars, table) if bars else None


@_tolerant
def _time_line(run: RunFacts) -> PageFigure | None:
    """Draw when processes died, and how long the run stood still until it had the next iteration."""
    start = read_time(run.data.started)
    known = [(event, event.time) for event in run.events if event.time is not None]
    if start is None or not known:
        return None
    spans: list[tuple[str, float, float, str]] = []
    died: datetime | None = None
    for event, time in known:
        at = max((time - start).total_seconds(), 0.0)
        if event.name == "died":
            died = time
            spans.append(("died", at, at, _event_text(event)))
        elif event.name == "recovered" and died is not None:
            spans.append(("stood still", (died - start).total_seconds(), at, _event_text(event)))
            died = None
        elif event.name != "restart":
            spans.append((shortened(event.name), at, at, _event_text(event)))
    if not spans:
        return None

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
    """Return the facts of an event that a figure has room for."""
    facts = event.facts
    if event.name == "died":
        return shortened(facts.get("cause", ""))
    if event.name == "recovered" and isinstance(facts.get("seconds"), (int, float)):
        return f"{facts['seconds']:.0f} s"
    return shortened(facts.get("signal", ""))


def comparison_figures(runs: Sequence[RunFacts]) -> list[PageFigure]:
    """Draw several runs into the same figures.

    Args:
        runs: At most six, with their names.
    """
    figures = _final_success(runs[0], runs)
    for metric, what, y_label, over in _COMPARED:
        key, title = f"{metric.rpartition('/')[2]}-{over}", f"{what} over {over}"
        of_runs = [(run.name, run, metric) for run in runs]
        figures += _metrics(runs[0], key, title, y_label, of_runs, over, percent=metric == "success_rate")
    return figures


@_tolerant
def _final_success(_: RunFacts, runs: Sequence[RunFacts]) -> PageFigure | None:
    """Draw the success of each run that was evaluated at its end."""
    found = [(run.name, run.data.evaluation.success) for run in runs if run.data.evaluation is not None]
    bars, rows = [], []
    for index, (name, success) in enumerate(found):
        if success is not None:
            rate, lower, upper = 100 * success.rate, 100 * success.lower, 100 * success.upper
            bars.append(Bar(name, lower, upper, color=SERIES[index % len(SERIES)], value=rate))
            rows.append((name, f"{rate:.4g}", f"{lower:.4g} to {upper:.4g}"))
    table = (("run", "success [%]", "95 % interval"), tuple(rows))
    return row_figure("success", "Success at the end", "success [%]", bars, table, right=103) if bars else None


def save_comparison_plot(runs: Sequence[RunFacts], threshold: float, path: Path) -> None:
    """Draw runs as a PNG file: success over steps and over time, return over steps, and speed.

    Evaluations of the deterministic policy are marks with their intervals; what was measured in training are lines.

    Args:
        runs: At least one, with their names.
        threshold: Success rate that is marked, 0 to 1.
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
    """Return a run's success in training as a thin line, and that of its evaluations as marks."""
    marks = _evaluations(run.name, run.evaluations, over, size, series)
    lines = _curve(run, "" if marks else run.name, "success_rate", over, size, 100)
    look = {"linewidth": 1, "alpha": 0.5, "marker": ""}
    return [*(replace(line, look=look, series=series) for line in lines), *marks]
