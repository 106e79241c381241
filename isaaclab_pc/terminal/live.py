# SPDX-License-Identifier: BSD-3-Clause
"""A terminal: lines that stay, above the phase with its clock, its bar and the newest numbers, redrawn in place."""

import os
import sys
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from isaaclab_pc.terminal.events import Decided, Event, Iterated, Phase, Warned
from isaaclab_pc.terminal.screen import Screen
from isaaclab_pc.terminal.words import event_text, iteration_line, memory_line


def is_terminal(stream: TextIO) -> bool:
    """Tell whether a stream is a terminal that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")


class LiveScreen(Screen):
    """Lines that stay, above a foot that is redrawn while a phase runs."""

    def __init__(self, stream: TextIO, console: Console | None = None) -> None:
        """Draw nothing yet; ``console`` takes the place of rich's own for the stream."""
        super().__init__()
        self._console = console or Console(file=stream, force_terminal=True)
        self._bar = Progress()
        self._foot: Live | None = None
        self._iteration: Iterated | None = None

    def advance(self, step: int, steps: int) -> None:
        """Move the bar of an evaluation or of a search."""
        super().advance(step, steps)
        with self._lock:
            self._move_bar(step, steps, f"step {step:,}/{steps:,}")

    def _start_clock(self) -> None:
        assert self._phase is not None
        columns = (TextColumn("[bold]{task.description}"), TimeElapsedColumn(), BarColumn(bar_width=None))
        self._bar = Progress(*columns, console=self._console, expand=True)
        self._bar.add_task(self._phase.phase, total=None)
        self._foot = Live(self._bar, console=self._console, transient=True, redirect_stderr=sys.stderr.isatty())
        if self._phase.phase in ("train", "evaluate") and self._iteration is not None:
            self._show_iteration(self._iteration)
        self._foot.start()

    def _stop_clock(self) -> None:
        if self._foot is not None:
            self._foot.stop()
            self._foot = None

    def _write_event(self, event: Event) -> None:
        if isinstance(event, Iterated):
            self._iteration = event
            self._show_iteration(event)
        elif isinstance(event, Phase) and event.state == "end":
            # The last line of a training stays.
            if event.phase == "train" and self._iteration is not None:
                self._print(iteration_line(self._iteration))
        elif isinstance(event, Phase):
            self._print(event.what, "bold")
        else:
            style = "yellow" if isinstance(event, Warned) else "cyan" if isinstance(event, Decided) else ""
            self._print(event_text(event), style)

    def _show_iteration(self, event: Iterated) -> None:
        self._move_bar(event.iteration, event.max_iterations, iteration_line(event), memory_line(event))
        if self._foot is not None:
            self._foot.refresh()

    def _move_bar(self, completed: int, total: int, *lines: str) -> None:
        if self._foot is not None:
            self._bar.update(self._bar.task_ids[0], completed=completed, total=total)
            texts = [Text(line) for line in lines if line]
            self._foot.update(Group(self._bar, *texts))

    def _write_text(self, text: str, *, stderr: bool = False) -> None:
        if stderr and not sys.stderr.isatty():
            print(text, file=sys.stderr, flush=True)
        else:
            self._print(text)

    def _print(self, text: str, style: str = "") -> None:
        if text:
            self._console.print(Text(text, style), soft_wrap=True)
