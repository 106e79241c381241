# SPDX-License-Identifier: BSD-3-Clause
"""Events as lines of text."""

import math
from datetime import timedelta

from isaaclab_pc.terminal.events import Event, Iterated, Phase


def clock(seconds: float) -> str:
    """Return a time as a clock shows it, in hours, minutes and seconds, such as ``0:01:28``."""
    return str(timedelta(seconds=round(seconds)))


def event_text(event: Event) -> str:
    """Return an event as a line; empty where there is nothing to say."""
    if isinstance(event, Phase) and event.state == "running":
        step = f", step {event.step:,} of {event.steps:,}" if event.steps else ""
        return f"{event.phase}: {clock(event.elapsed_s)} so far{step}"
    if isinstance(event, Phase):
        return event.what if event.state == "begin" else ""
    if isinstance(event, Iterated):
        return iteration_line(event)
    return getattr(event, "text", "")


def iteration_line(event: Iterated) -> str:
    """Return the one line of an iteration, as docs/reading-output.md explains it."""
    width = len(str(event.max_iterations))
    parts = [
        f"iteration {event.iteration:{width}d}/{event.max_iterations}",
        f"ETA {clock(event.eta_s)}",
        f"{_number(event, 'Perf/total_fps', '.0f')} steps/s",
        f"reward {_number(event, 'mean_reward', '.2f')}",
        f"success {_number(event, 'success_rate', '.0f', scale=100)} %",
        f"collect {_number(event, 'collect_s', '.2f')} s",
        f"learn {_number(event, 'learn_s', '.2f')} s",
    ]
    if any(event.guard.values()):
        parts.append(f"guard {sum(event.guard.values())}")
    if event.restarts:
        parts.append(f"restarts {event.restarts}")
    return "  ".join(parts)


def memory_line(event: Iterated) -> str:
    """Return the memory of an iteration, for the foot of a terminal; empty where it is not known."""
    names = {"memory": "Memory/host_bytes", "GPU": "Memory/device_bytes"}
    known = {name: event.metrics[metric] for name, metric in names.items() if metric in event.metrics}
    return "  ".join(f"{name} {size / 2**30:.1f} GiB" for name, size in known.items())


def _number(event: Iterated, name: str, format_spec: str, scale: float = 1.0) -> str:
    value = event.metrics.get(name, math.nan)
    return format(scale * value, format_spec) if math.isfinite(value) else "-"
