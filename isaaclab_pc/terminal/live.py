# SPDX-License-Identifier: BSD-3-Clause
"""A terminal: lines that stay, above the phase with its clock, its bar and the newest numbers, redrawn in place."""

import os
import sys
from collections.abc import Iterable
from typing import TextIO

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from isaaclab_pc.terminal.events import Decided, Event, Iterated, Phase, TuneProgress, Warned
from isaaclab_pc.terminal.screen import Screen
from isaaclab_pc.terminal.words import event_text, iteration_line, iteration_numbers, trials_numbers

_REDRAWS_PER_S = 4


def is_terminal(stream: TextIO) -> bool:
    """Tell whether a stream is a terminal that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")


class _Foot(Progress):
    """A phase with its clock and its bar, above lines of numbers."""

    def __init__(self, console: Console, phase: str) -> None:
        self._lines: list[str] = []
        # It draws itself while it is made.
        super().__init__(
            TextColumn("[bold]{task.description}"),
            TimeElapsedColumn(),
            BarColumn(bar_width=None),
            console=console,
            refresh_per_second=_REDRAWS_PER_S,
            transient=True,
            redirect_stderr=sys.stderr.isatty(),
            expand=True,
        )
        self._task = self.add_task(phase, total=None)

    def show(self, completed: int, total: int, lines: list[str]) -> None:
        """Redraw the bar and the lines below it."""
        self._lines = lines
        self.update(self._task, completed=completed, total=total, refresh=True)

    def get_renderables(self) -> Iterable[RenderableType]:
        """Yield what is redrawn."""
        yield self.make_tasks_table(self.tasks)
        yield from map(Text, self._lines)


class LiveScreen(Screen):
    """Lines that stay, above a foot that is redrawn while a phase runs."""

    def __init__(self, stream: TextIO, console: Console | None = None) -> None:
        """Draw nothing yet; ``console`` takes the place of rich's own for the stream."""
        super().__init__()
        self._console = console or Console(file=stream, force_terminal=True)
        self._foot: _Foot | None = None
        self._iteration: Iterated | None = None

    def advance(self, step: int, steps: int) -> None:
        """Move the bar of an evaluation."""
        super().advance(step, steps)
        with self._lock:
            if self._foot is not None and steps:
                self._foot.show(step, steps, [f"step {step:,}/{steps:,}", *self._numbers()])

    def _start_clock(self) -> None:
        assert self._phase is not None
        self._foot = _Foot(self._console, self._phase.phase)
        if self._phase.phase in ("train", "evaluate") and self._iteration is not None:
            self._show_iteration(self._iteration)
        self._foot.start()

    def _stop_clock(self) -> None:
        if self._foot is not None:
            foot, self._foot = self._foot, None
            foot.stop()

    def _write_event(self, event: Event) -> None:
        if isinstance(event, Iterated):
            self._iteration = event
            self._show_iteration(event)
        elif isinstance(event, TuneProgress):
            if self._foot is not None:
                done = event.ended * event.max_iterations + sum(event.running.values())
                self._foot.show(done, event.trials * event.max_iterations, trials_numbers(event))
        elif isinstance(event, Phase) and event.state == "end":
            # The last line of a training stays.
            if event.phase == "train" and self._iteration is not None:
                self._print(iteration_line(self._iteration))
        elif isinstance(event, Phase):
            self._print(event.what, "bold")
        else:
            style = "yellow" if isinstance(event, Warned) else "cyan" if isinstance(event, Decided) else ""
            self._print(event_text(event), style)

    def _show_iteration(self, iteration: Iterated) -> None:
        if self._foot is not None:
            self._foot.show(iteration.iteration, iteration.max_iterations, self._numbers())

    def _numbers(self) -> list[str]:
        return [] if self._iteration is None else iteration_numbers(self._iteration)

    def _write_text(self, text: str, *, stderr: bool = False, always: bool = False) -> None:
        if stderr and not sys.stderr.isatty():
            print(text, file=sys.stderr, flush=True)
        else:
            self._print(text)

    def _print(self, text: str, style: str = "") -> None:
        if text:
            self._console.print(Text(text, style), soft_wrap=True)
