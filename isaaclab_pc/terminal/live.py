# SPDX-License-Identifier: BSD-3-Clause
"""The foot of a terminal: the phase with its clock, and the last iteration's numbers, redrawn in place."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from isaaclab_pc.terminal.durations import Durations
from isaaclab_pc.terminal.events import Decision, Event, Iteration, Phase, Trials, Warned
from isaaclab_pc.terminal.screen import Screen
from isaaclab_pc.terminal.words import (
    clock,
    event_text,
    iteration_line,
    iteration_numbers,
    running_trials,
    trials_line,
)

__all__ = ["LiveScreen", "is_terminal"]

_REDRAWS_PER_S = 4
_USUAL_COLUMNS = 80


def is_terminal(stream: TextIO) -> bool:
    """Tell whether a stream is a terminal that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")


class LiveScreen(Screen):
    """Lines that stay, above a foot that is redrawn while a phase runs."""

    def __init__(self, stream: TextIO, durations: Durations | None = None, console: Console | None = None) -> None:
        """Draw nothing yet.

        Args:
            stream: The terminal; a :class:`~isaaclab_pc.user_stream.UserStream` may close.
            durations: As for :class:`~isaaclab_pc.terminal.screen.Screen`.
            console: rich's, of another width, or one that records; None: one as wide as the terminal is at the time.
        """
        super().__init__(durations)
        self._console = console or Console(file=stream, width=_width(stream), force_terminal=True)
        self._terminal = stream if console is None else None
        self._live: Live | None = None
        # Of letters that every terminal has, where it takes no others.
        self._spinner = Spinner("dots" if self._console.encoding.startswith("utf") else "line")
        self._iteration: Iteration | None = None
        self._trials: Trials | None = None

    def _start_clock(self) -> None:
        self._live = Live(
            get_renderable=self.foot,
            console=self._console,
            refresh_per_second=_REDRAWS_PER_S,
            transient=True,
            redirect_stderr=sys.stderr.isatty(),
        )
        self._live.start(refresh=True)

    def _stop_clock(self) -> None:
        if self._live is not None:
            live, self._live = self._live, None
            live.stop()

    def _write_event(self, event: Event) -> None:
        if isinstance(event, (Iteration, Trials)):
            if isinstance(event, Iteration):
                self._iteration = event
            else:
                self._trials = event
            if self._live is not None:
                self._live.refresh()
        elif isinstance(event, Phase) and event.state == "end":
            # What stays of a training is its last line.
            if event.phase == "train" and self._iteration is not None:
                self._print(iteration_line(self._iteration))
        elif isinstance(event, Phase):
            # The foot shows what it usually takes.
            self._print(event.what, "bold")
        else:
            style = "yellow" if isinstance(event, Warned) else "cyan" if isinstance(event, Decision) else ""
            self._print(event_text(event), style)

    def _write_text(self, text: str, stderr: bool) -> None:
        if stderr and not sys.stderr.isatty():
            print(text, file=sys.stderr, flush=True)
            return
        self._print(text)

    def _print(self, text: str, style: str = "") -> None:
        if text:
            self._console.print(Text(text, style), soft_wrap=True)

    def foot(self) -> RenderableType:
        """Return what is redrawn while a phase runs."""
        if self._terminal is not None:
            # Lines of the width at the start would wrap in a narrower window, where rich could not erase them.
            self._console.width = _width(self._terminal)
        phase = self._running()
        if phase is None:
            return ""

        head = f"{phase.phase}  {clock(phase.elapsed_s)}"
        if phase.steps:
            head += f"  step {phase.step:,}/{phase.steps:,}"
        if phase.usual_s is not None:
            head += f"  usually {clock(phase.usual_s)} here"
        known = self._iteration if phase.phase in ("train", "evaluate") else None
        if known is not None:
            head += f"  iteration {known.iteration}/{known.max_iterations}  ETA {clock(known.eta_s)}"

        row = Table.grid(padding=(0, 1))
        row.add_row(self._spinner, Text(head, "bold"))
        if phase.phase == "tune" and self._trials is not None:
            trials = self._trials
            lines = filter(None, [trials_line(trials), running_trials(trials)])
            done = trials.ended * trials.max_iterations + sum(trials.running.values())
            return _with_bar(row, trials.trials * trials.max_iterations, done, lines)
        if known is None:
            return row
        return _with_bar(row, known.max_iterations, known.iteration, iteration_numbers(known))


def _with_bar(head: RenderableType, total: int, completed: int, lines: Iterable[str]) -> RenderableType:
    bar = Table.grid(expand=True)
    bar.add_row(ProgressBar(total=total, completed=completed))
    return Group(head, bar, *(Text(line) for line in lines))


def _width(stream: TextIO) -> int:
    """Return the columns of a terminal, also where the standard streams go elsewhere."""
    try:
        # A terminal that was never told its size has 0.
        return os.get_terminal_size(stream.fileno()).columns or _USUAL_COLUMNS
    except OSError:
        return _USUAL_COLUMNS
