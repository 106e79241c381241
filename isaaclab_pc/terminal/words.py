# SPDX-License-Identifier: BSD-3-Clause
"""Events as lines of text."""

import math

from isaaclab_pc.terminal.events import Event, Iterated, Phase, TrialStatus, TuneProgress

_MOST_RUNNING = 6
"""Trials that one line of a foot has room for."""


def clock(seconds: float) -> str:
    """Return a time as a clock shows it, in hours, minutes and seconds, such as ``0:01:28``."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}"


def event_text(event: Event) -> str:
    """Return an event as a line; empty where there is nothing to say."""
    if isinstance(event, Phase):
        return _phase_line(event)
    if isinstance(event, Iterated):
        return iteration_line(event)
    if isinstance(event, TrialStatus):
        values = " ".join(f"{key}={value}" for key, value in event.values.items())
        score = "" if event.score is None else f", {event.metric} {event.score:.4g}"
        error = "" if event.error is None else f": {event.error}"
        return f"trial {event.trial} ({values}) {event.status}, iteration {event.iteration}{score}{error}"
    if isinstance(event, TuneProgress):
        return _trials_line(event)
    return getattr(event, "text", "")


def iteration_line(event: Iterated) -> str:
    """Return the one line of an iteration, as docs/reading-output.md explains it."""
    width = len(str(event.max_iterations))
    parts = [
        f"iteration {event.iteration:{width}d}/{event.max_iterations}",
        f"ETA {clock(event.eta_s)}",
        f"{_number(event, 'Perf/total_fps', '.0f')} steps/s",
        _results(event),
        _times(event),
    ]
    parts += [f"guard {sum(event.guard.values())}"] if any(event.guard.values()) else []
    parts += [f"restarts {event.restarts}"] if event.restarts else []
    return "  ".join(parts)


def iteration_numbers(event: Iterated) -> list[str]:
    """Return the numbers of an iteration as short lines, for the foot of a terminal."""
    progress = f"iteration {event.iteration}/{event.max_iterations}  ETA {clock(event.eta_s)}"
    total, env, inference = (_number(event, f"Perf/{part}_fps", ".0f") for part in ("total", "env", "inference"))
    speed = f"{total} steps/s (environment {env}, with inference {inference})"

    causes = ", ".join(f"{cause} {count}" for cause, count in event.guard.items() if count)
    health = f"guard {causes or 'nothing'}  restarts {event.restarts}"
    if event.memory is not None:
        memory = event.memory
        uses = {
            "memory": (memory.host_bytes, memory.host_limit),
            "GPU": (memory.device_bytes, memory.device_limit),
        }
        known = ((name, used, limit) for name, (used, limit) in uses.items() if used is not None and limit is not None)
        parts = [f"{name} {used / 2**30:.1f} of {limit / 2**30:.1f} GiB" for name, used, limit in known]
        health = "  ".join([*parts, health])
    return [f"{progress}  {_results(event)}", f"{speed}  {_times(event)}", health]


def trials_numbers(event: TuneProgress) -> list[str]:
    """Return how a search stands, and how far the trials are that run, for the foot of a terminal."""
    running = [f"{name} at {iteration}/{event.max_iterations}" for name, iteration in event.running.items()]
    more = f" and {len(running) - _MOST_RUNNING} more" if len(running) > _MOST_RUNNING else ""
    return [_trials_line(event), *([f"running {', '.join(running[:_MOST_RUNNING])}{more}"] if running else [])]


def _trials_line(event: TuneProgress) -> str:
    parts = [f"trials {event.ended}/{event.trials} ended", f"{len(event.running)} running"]
    parts += [f"{event.failed} failed"] if event.failed else []
    if event.best is not None and event.score is not None:
        parts.append(f"best so far {event.best}: {event.metric} {event.score:.4g}")
    return "  ".join(parts)


def _results(event: Iterated) -> str:
    success = _number(event, "success_rate", ".0f", scale=100)
    return f"reward {_number(event, 'mean_reward', '.2f')}  success {success} %"


def _times(event: Iterated) -> str:
    return f"collect {_number(event, 'collect_s', '.2f')} s  learn {_number(event, 'learn_s', '.2f')} s"


def _number(event: Iterated, name: str, format_spec: str, scale: float = 1.0) -> str:
    value = event.metrics.get(name, math.nan)
    return format(scale * value, format_spec) if math.isfinite(value) else "-"


def _phase_line(event: Phase) -> str:
    if event.state == "running":
        step = f", step {event.step:,} of {event.steps:,}" if event.steps else ""
        return f"{event.phase}: {clock(event.elapsed_s)} so far{step}"
    return event.what if event.state == "begin" else ""
