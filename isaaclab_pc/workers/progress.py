# SPDX-License-Identifier: BSD-3-Clause
"""What the user sees while a policy learns: a live bar on a terminal, one plain line per iteration elsewhere."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping
from typing import IO, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

__all__ = ["Display", "make_display"]


class Display(Protocol):
    """Shows iterations and messages."""

    def iteration(self, completed: int, metrics: Mapping[str, float]) -> None:
        """Show a completed iteration.

        Args:
            completed: Iterations completed so far, 1 after the first.
            metrics: What the runner reported.
        """
        ...

    def message(self, text: str) -> None:
        """Show a line that stays."""
        ...

    def close(self) -> None:
        """Leave the terminal as it was."""
        ...


def make_display(stream: IO[str], completed: int, maximum: int) -> Display:
    """Choose the display that fits a stream.

    Args:
        stream: Where to write.
        completed: Iterations that a resumed run brings along.
        maximum: The run's last iteration.

    Returns:
        A live display on a terminal, plain lines elsewhere.
    """
    display = _Live if stream.isatty() else _Lines
    return display(stream, completed, maximum)


class _Eta:
    """Estimates the time left from the mean duration of an iteration.

    The first iteration also compiles kernels and allocates, so it counts only until there is a second one.
    """

    def __init__(self, completed: int, maximum: int) -> None:
        self._maximum = maximum
        self._first = completed + 1
        self._start = time.monotonic()

    def seconds(self, completed: int) -> float:
        now = time.monotonic()
        elapsed = now - self._start
        if completed == self._first:
            self._start = now

        timed = max(completed - self._first, 1)
        return elapsed / timed * (self._maximum - completed)


class _Lines:
    """One line per iteration, for logs and pipes."""

    def __init__(self, stream: IO[str], completed: int, maximum: int) -> None:
        self._stream = stream
        self._maximum = maximum
        self._eta = _Eta(completed, maximum)

    def iteration(self, completed: int, metrics: Mapping[str, float]) -> None:
        width = len(str(self._maximum))
        eta = _format_time(self._eta.seconds(completed))
        self.message(f"iteration {completed:{width}d}/{self._maximum}  ETA {eta}  {_summary(metrics)}")

    def message(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()

    def close(self) -> None:
        self._stream.flush()


class _Live:
    """A bar and a line of numbers, redrawn in place."""

    def __init__(self, stream: IO[str], completed: int, maximum: int) -> None:
        self._eta = _Eta(completed, maximum)
        self._bar = Progress(
            TextColumn("iteration"), MofNCompleteColumn(), BarColumn(), TextColumn("ETA {task.fields[eta]}")
        )
        self._task = self._bar.add_task("train", total=maximum, completed=completed, eta="-")
        self._live = Live(self._bar, console=Console(file=stream, width=_width(stream)), auto_refresh=False)
        self._live.start(refresh=True)

    def iteration(self, completed: int, metrics: Mapping[str, float]) -> None:
        self._bar.update(self._task, completed=completed, eta=_format_time(self._eta.seconds(completed)))
        self._live.update(Group(self._bar, Text(_summary(metrics))), refresh=True)

    def message(self, text: str) -> None:
        self._live.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        self._live.stop()


def _width(stream: IO[str]) -> int:
    """Return the columns of a terminal. Rich would look at the standard streams, which go to the worker's log here."""
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except OSError:
        return 80


def _format_time(seconds: float) -> str:
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}"


def _summary(metrics: Mapping[str, float]) -> str:
    def show(key: str, format_spec: str, scale: float = 1.0) -> str:
        value = metrics.get(key, math.nan)
        return format(scale * value, format_spec) if math.isfinite(value) else "-"

    return (
        f"{show('env_steps_per_s', '.0f')} steps/s  reward {show('mean_reward', '.2f')}  "
        f"success {show('success_rate', '.0f', 100)} %  "
        f"collect {show('collect_s', '.2f')} s  learn {show('learn_s', '.2f')} s"
    )
