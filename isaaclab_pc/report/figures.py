# SPDX-License-Identifier: BSD-3-Clause
"""The figures of a report, chosen by what a run's folder holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Literal

from isaaclab_pc.report.read_run import Event, RunFacts, read_time
from isaaclab_pc.report.sections import budget_of, chosen_trial, faults
from isaaclab_pc.report.words import shortened
from isaaclab_pc.viz.film_figures import film_figure, look_figure
from isaaclab_pc.viz.run_curves import RunCurves
from isaaclab_pc.viz.run_figures import (
    Interval,
    Line,
    PageFigure,
    Span,
    bar_figure,
    curve_figure,
    interval_figure,
    stacked_figure,
    time_line_figure,
    time_unit,
)
from isaaclab_pc.viz.search_figures import ledger_figure, memory_figure, speed_figure

__all__ = [
    "comparing_figures",
    "event_text",
    "health_figures",
    "learning_figures",
    "memory_figures",
    "result_figures",
    "seen_figures",
    "speed_figures",
]

_STEPS = "environment steps"
_REWARD = "Episode_Reward/"
_GIB = 2**30
_MOST_LINES = 6
"""Curves that one figure takes."""
_SPEEDS = {"environment": "Perf/env_fps", "with inference": "Perf/inference_fps", "with the update": "Perf/total_fps"}


def _draw_all(run: RunFacts, drawings: Sequence[Callable[[], PageFigure | None]]) -> list[PageFigure]:
    """Draw figures; what a stranger's numbers make impossible to draw is said, and takes no other figure with it."""
    figures = []
    for draw in drawings:
        try:
            figure = draw()
        except Exception as error:
            run.problems.append(f"a figure could not be drawn ({type(error).__name__}: {error})")
            continue
        if figure is not None:
            figures.append(figure)
    return figures


def result_figures(run: RunFacts) -> list[PageFigure]:
    """Draw success and return over environment steps and over time."""
    return _draw_all(
        run,
        [
            lambda: _success(run, over_time=False),
            lambda: _success(run, over_time=True),
            lambda: _single(run, "return-steps", "Mean return over steps", "mean_reward", "return"),
            lambda: _single(run, "return-time", "Mean return over time", "mean_reward", "return", over_time=True),
        ],
    )


def _success(run: RunFacts, *, over_time: bool) -> PageFigure | None:
    """Draw the success rate of training, and those of the evaluations."""
    lines = _lines(run, {"in training": "success_rate"}, over_time=over_time)
    data = run.data
    unit, size = _unit(run) if over_time else ("", 1.0)
    marks = []
    for point in data.evaluations:
        if (success := point.evaluation.success) is not None:
            x = point.wall_s / size if over_time else point.env_steps
            marks.append(Interval("evaluated in training", x, success.rate, success.lower, success.upper))
    if data.evaluation is not None and (success := data.evaluation.success) is not None:
        x = data.wall_s / size if over_time else data.env_steps
        marks.append(Interval("evaluated at the end", x, success.rate, success.lower, success.upper))
    if not lines and not marks:
        return None
    key, over = ("success-time", "time") if over_time else ("success-steps", "steps")
    x_label = f"time [{unit}]" if over_time else _STEPS
    return curve_figure(key, f"Success over {over}", x_label, "success [%]", lines, marks, percent=True)


def _single(
    run: RunFacts, key: str, title: str, metric: str, y_label: str, *, over_time: bool = False
) -> PageFigure | None:
    """Draw one metric."""
    lines = _lines(run, {y_label or title: metric}, over_time=over_time)
    if not lines:
        return None
    x_label = f"time [{_unit(run)[0]}]" if over_time else _STEPS
    return curve_figure(key, title, x_label, y_label, lines)


def _lines(run: RunFacts, metrics: dict[str, str], *, over_time: bool = False) -> list[Line]:
    """Return the curves of metrics that have a value, by their names in the figure."""
    curves = run.curves
    if curves is None:
        return []
    x = _x(run, curves, over_time)
    found = {name: curves.metrics.get(metric, []) for name, metric in metrics.items()}
    return [Line(shortened(name), x, y) for name, y in found.items() if any(map(math.isfinite, y))]


def _x(run: RunFacts, curves: RunCurves, over_time: bool) -> Sequence[float]:
    if not over_time:
        return curves.env_steps
    _, size = _unit(run)
    return [seconds / size for seconds in curves.wall_s]


def _unit(run: RunFacts) -> tuple[str, float]:
    """Return the unit of time of a run's figures, and its seconds."""
    last = run.curves.wall_s[-1] if run.curves is not None else 0.0
    return time_unit(max(last, run.data.wall_s))


def seen_figures(run: RunFacts) -> list[PageFigure]:
    """Draw what the policy saw: at the beginning and at the end, and in an episode of each outcome."""
    titles = {
        "first": "First look",
        "last": "Last look",
        "success": "An episode that succeeded",
        "failure": "An episode that failed",
    }
    drawings = []
    for name, film in run.films.items():
        draw = look_figure if name in ("first", "last") else film_figure
        drawings.append(lambda draw=draw, name=name, film=film: draw(f"seen-{name}", titles[name], film))
    return _draw_all(run, drawings)


def learning_figures(run: RunFacts) -> list[PageFigure]:
    """Draw the reward's terms, and each loss on its own, as their scales differ."""
    if run.curves is None:
        return []
    names = sorted(run.curves.metrics)
    rewards = {name.removeprefix(_REWARD): name for name in names if name.startswith(_REWARD)}
    shown = dict(list(rewards.items())[:_MOST_LINES])

    def reward() -> PageFigure | None:
        lines = _lines(run, shown)
        return curve_figure("rewards", "Terms of the reward", _STEPS, "sum over an episode", lines) if lines else None

    others = [name for name in names if name.startswith("loss/")]
    others += [name for name in ("learning_rate", "action_std") if len(set(run.curves.metrics.get(name, ()))) > 1]
    drawings = [
        lambda name=name, index=index: _single(
            run, f"learning-{index}", shortened(name.replace("/", ": ").replace("_", " ")), name, ""
        )
        for index, name in enumerate(others)
    ]
    return _draw_all(run, [reward, *drawings])


def speed_figures(run: RunFacts) -> list[PageFigure]:
    """Draw the speed of the environment, with the policy and with the update, and where an iteration's time goes."""

    def split() -> PageFigure | None:
        curves = run.curves
        if curves is None or not {"collect_s", "learn_s"} <= curves.metrics.keys():
            return None
        names = {"rollout": "collect_s", "update": "learn_s"}
        parts = [Line(name, curves.iterations, curves.metrics[metric]) for name, metric in names.items()]
        return stacked_figure("split", "Time of an iteration", "iteration", "seconds", parts)

    def speed() -> PageFigure | None:
        lines = _lines(run, _SPEEDS)
        return curve_figure("fps", "Speed", _STEPS, "environment steps per second", lines) if lines else None

    return _draw_all(run, [speed, split])


def memory_figures(run: RunFacts) -> list[PageFigure]:
    """Draw the memory in use over the training, the ledger against the budget, and the trials of the search."""
    num_envs = run.data.num_envs if isinstance(run.data.num_envs, int) else None
    drawings: list[Callable[[], PageFigure | None]] = [
        lambda: _memory(run, "host", "Host memory over the training"),
        lambda: _memory(run, "device", "GPU memory over the training"),
    ]
    if (ledger := run.ledger) is not None and ledger.entries:
        title = f"What the memory of {ledger.num_envs:,} environments is made of"
        drawings.append(lambda: ledger_figure("ledger", title, ledger, budget_of(run)))
    if trials := [trial for trial in run.trials if trial.num_envs > 0]:
        drawings.append(lambda: memory_figure("trials-memory", "Memory of the search's trials", trials, num_envs))
        if any(trial.fits for trial in trials):
            drawings.append(lambda: speed_figure("trials-speed", "Speed of the search's trials", trials, num_envs))
    return _draw_all(run, drawings)


def _memory(run: RunFacts, place: Literal["host", "device"], title: str) -> PageFigure | None:
    """Draw the memory in use after each iteration, and the budget that the search held the run to."""
    lines = _lines(run, {"in use": f"Memory/{place}_bytes"}, over_time=True)
    if not lines:
        return None
    (used,) = (Line(line.name, line.x, [size / _GIB for size in line.y]) for line in lines)
    trial = chosen_trial(run)
    budget = None if trial is None else getattr(trial, f"{place}_budget")
    limits = [] if budget is None else [Line("budget", used.x, [budget / _GIB] * len(used.x))]
    return curve_figure(f"memory-{place}", title, f"time [{_unit(run)[0]}]", "GiB", [used, *limits])


def health_figures(run: RunFacts) -> list[PageFigure]:
    """Draw what the guard ended by cause and over the steps, and what befell the processes on a time line."""
    drawings: list[Callable[[], PageFigure | None]] = []
    if counts := faults(run):
        causes = [(cause.replace("_", " "), number) for cause, number in counts.items()]
        drawings.append(lambda: bar_figure("guard", "Episodes that the guard ended", "episodes", causes))
        rate = "Guard/per_million_steps"
        drawings.append(lambda: _single(run, "guard-rate", "Faults over the training", rate, "per million steps"))
    if run.events:
        drawings.append(lambda: _time_line(run))
    return _draw_all(run, drawings)


def _time_line(run: RunFacts) -> PageFigure | None:
    """Draw when processes died, and how long the run stood still until it had the next iteration."""
    start = read_time(run.data.started)
    known = [(event, event.time) for event in run.events if event.time is not None]
    if start is None or not known:
        return None
    spans = []
    died: datetime | None = None
    for event, time in known:
        at = max((time - start).total_seconds(), 0.0)
        if event.name == "died":
            died = time
            spans.append(Span("died", at, at, event_text(event), is_bad=True))
        elif event.name == "recovered" and died is not None:
            spans.append(Span("stood still", (died - start).total_seconds(), at, event_text(event), is_bad=True))
            died = None
        elif event.name != "restart":
            spans.append(Span(shortened(event.name), at, at, event_text(event), is_bad=event.name == "gave up"))
    ended = read_time(run.data.ended)
    end = (ended - start).total_seconds() if ended is not None else spans[-1].end
    return time_line_figure("time-line", "Deaths, restarts and stops", spans, max(end, 1.0)) if spans else None


def event_text(event: Event) -> str:
    """Return the facts of an event that a figure has room for."""
    facts = event.facts
    if event.name == "died":
        return shortened(facts.get("cause", ""))
    if event.name == "recovered" and isinstance(facts.get("seconds"), (int, float)):
        return f"{facts['seconds']:.0f} s"
    return shortened(facts.get("signal", ""))


def comparing_figures(runs: Sequence[tuple[str, RunFacts]]) -> list[PageFigure]:
    """Draw several runs into the same figures.

    Args:
        runs: At most six, each with its name.
    """
    unit, size = max((_unit(run) for _, run in runs), key=lambda unit: unit[1])

    def draw(metric: str, what: str, y_label: str, over_time: bool) -> PageFigure | None:
        lines = []
        for name, run in runs:
            if run.curves is not None and any(map(math.isfinite, run.curves.metrics.get(metric, ()))):
                x = [s / size for s in run.curves.wall_s] if over_time else run.curves.env_steps
                lines.append(Line(name, x, run.curves.metrics[metric]))
        if not lines:
            return None
        over = "time" if over_time else "steps"
        x_label = f"time [{unit}]" if over_time else _STEPS
        title = f"{what} over {over}"
        percent = metric == "success_rate"
        return curve_figure(f"{metric.rpartition('/')[2]}-{over}", title, x_label, y_label, lines, percent=percent)

    shown = [("success_rate", "Success in training", "success [%]"), ("mean_reward", "Mean return", "return")]
    drawings: list[Callable[[], PageFigure | None]] = [lambda: _final_success(runs)]
    drawings += [
        lambda metric=metric, what=what, y_label=y_label, over_time=over_time: draw(metric, what, y_label, over_time)
        for metric, what, y_label in shown
        for over_time in (False, True)
    ]
    drawings.append(lambda: draw("Perf/total_fps", "Speed", "environment steps per second", over_time=False))
    return _draw_all(runs[0][1], drawings)


def _final_success(runs: Sequence[tuple[str, RunFacts]]) -> PageFigure | None:
    """Draw the success of each run that was evaluated at its end."""
    marks = []
    for name, run in runs:
        success = run.data.evaluation.success if run.data.evaluation is not None else None
        if success is not None:
            marks.append(Interval(name, 0.0, success.rate, success.lower, success.upper))
    return interval_figure("success", "Success at the end", "success [%]", marks) if marks else None
