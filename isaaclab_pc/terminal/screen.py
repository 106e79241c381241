# SPDX-License-Identifier: BSD-3-Clause
"""The one thing that a script prints through, in one of three ways: live, lines, JSON."""

import contextlib
import math
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO

from isaaclab_pc.terminal.events import Decided, End, Event, Phase, PhaseName, Warned, read_event, to_line
from isaaclab_pc.terminal.program_name import as_started
from isaaclab_pc.terminal.words import event_text

RUNNING_SECONDS = 30.0
"""Time without a word after which a phase says that it still runs [s]."""

EVENT_MARK = "\x1e"
"""First character of a child's line that is an event: the record separator of RFC 7464. Other lines are text."""


_ADVANCE_SECONDS = 1.0
"""Least time between two words of a child about how far it has come [s]."""


class Screen:
    """Shows events, and knows the phase that runs, with its clock.

    Subclasses write events and lines of text. All methods may be called from any thread.
    """

    def __init__(self, stream: IO[str] | None = None) -> None:
        """Start without a phase; ``stream`` is written to, None: standard output and error."""
        self._stream = stream
        self._lock = threading.RLock()
        self._phase: Phase | None = None
        self._phase_ended = threading.Event()
        self._began = 0.0
        self._spoke = 0.0
        self._error: str | None = None
        self.files: dict[str, list[str]] = {}
        """Paths of what was made so far, by its kind."""

    def show(self, event: Event) -> None:
        """Show an event; that of a phase begins it, ends it, or tells how far it has come."""
        if isinstance(event, Phase):
            if event.state == "begin":
                self.begin(event.phase, event.what)
            elif event.state == "end":
                self.end_phase()
            else:
                self.advance(event.step, event.steps)
            return
        with self._lock:
            self._write_event(event)
            self._spoke = time.monotonic()

    def say(self, text: str, *, stderr: bool = False) -> None:
        """Show a line of text that nobody needs to act on; ``stderr``: on standard error."""
        with self._lock:
            self._write_text(text, stderr=stderr)
            self._spoke = time.monotonic()

    def decide(self, text: str, **values: object) -> None:
        """Show what was chosen that the user did not say; ``values`` are the settings that were chosen."""
        self.show(Decided(text=text, values=values))

    def warn(self, text: str) -> None:
        """Show that something is not as it should be; ``warning: `` at its beginning is for people only."""
        self.show(Warned(text=text))

    def fail(self, text: str) -> None:
        """Show an error, on standard error; the end of the script tells it, too."""
        with self._lock:
            self._error = as_started(text)
            self._write_text(f"error: {self._error}", stderr=True)

    def made(self, what: str, path: Path, text: str = "") -> None:
        """Show where a file of some kind, such as ``report``, was made; ``text`` describes it for people."""
        with self._lock:
            self.files.setdefault(what, []).append(str(path))
            self._write_text(f"{text or what}: {path}")

    def begin(self, phase: PhaseName, what: str = "") -> None:
        """Begin a phase, and end the one before it; ``what`` describes it for people."""
        with self._lock:
            self.end_phase()
            self._phase = Phase(phase=phase, what=what)
            self._began = self._spoke = time.monotonic()
            self._write_event(self._phase)
            self._start_clock()

    def advance(self, step: int, steps: int) -> None:
        """Tell how far the phase that runs has come: environment steps so far, and at most."""
        with self._lock:
            if self._phase is not None:
                self._phase = replace(self._phase, step=step, steps=steps)

    def end_phase(self) -> None:
        """End the phase that runs; nothing happens where none does."""
        with self._lock:
            if self._phase is None:
                return
            self._stop_clock()
            ended = replace(self._phase, state="end", elapsed_s=time.monotonic() - self._began)
            self._phase = None
            self._write_event(ended)

    def close(self, exit_code: int = 0) -> None:
        """End whatever runs, and tell the exit code of the script."""
        with self._lock:
            self.end_phase()
            self._write_event(End(exit_code=exit_code, error=self._error, files=self.files))

    def receive(self, line: str) -> None:
        """Show a line of a child, without its line feed: an event of its :class:`Wire`, or text."""
        if line.startswith(EVENT_MARK):
            with contextlib.suppress(ValueError):
                self.show(read_event(line.removeprefix(EVENT_MARK)))
                return
        if line.startswith("error: "):
            self.fail(line.removeprefix("error: "))
        else:
            self.say(line)

    def _write_running(self) -> None:
        """Say that the phase still runs."""
        if self._phase is not None:
            self._write_event(replace(self._phase, state="running", elapsed_s=time.monotonic() - self._began))
            self._spoke = time.monotonic()

    def _start_clock(self) -> None:
        self._phase_ended = threading.Event()
        threading.Thread(target=self._tick, args=(self._phase_ended,), name="phase", daemon=True).start()

    def _stop_clock(self) -> None:
        self._phase_ended.set()

    def _tick(self, ended: threading.Event) -> None:
        """Say that the phase still runs, whenever nothing was said for long."""
        while not ended.wait(RUNNING_SECONDS / 10):
            with self._lock:
                if not ended.is_set() and time.monotonic() > self._spoke + RUNNING_SECONDS:
                    self._write_running()

    def _write_event(self, event: Event) -> None:
        raise NotImplementedError

    def _write_text(self, text: str, *, stderr: bool = False) -> None:
        raise NotImplementedError


class Lines(Screen):
    """Plain lines, for pipes, logs and ``nohup``."""

    def _write_event(self, event: Event) -> None:
        if text := event_text(event):
            self._write_text(text, stderr=isinstance(event, Warned))

    def _write_text(self, text: str, *, stderr: bool = False) -> None:
        # Training must not end because somebody has closed a window.
        with contextlib.suppress(OSError):
            print(text, file=self._stream or (sys.stderr if stderr else sys.stdout), flush=True)


class JsonScreen(Screen):
    """One event a line, for programs; all text goes to standard error."""

    def _write_event(self, event: Event) -> None:
        if isinstance(event, Warned):
            event = Warned(text=event.text.removeprefix("warning: "))
        print(to_line(event), file=self._stream, flush=True)

    def _write_text(self, text: str, *, stderr: bool = False) -> None:
        print(text, file=sys.stderr, flush=True)


class Wire(Screen):
    """Hands a child's events and lines to the script that started it, which chooses how they look."""

    def __init__(self, stream: IO[str]) -> None:
        """Write to the script's end of a pipe."""
        super().__init__(stream)
        # The script has begun it.
        self._phase = Phase(phase="build")
        self._advanced = -math.inf

    def advance(self, step: int, steps: int) -> None:
        """Tell the script, but not in every step."""
        super().advance(step, steps)
        if time.monotonic() >= self._advanced + _ADVANCE_SECONDS:
            self._write_running()
            self._advanced = time.monotonic()

    def _start_clock(self) -> None:
        """Leave the clock to the script: native code may keep this process's threads from running."""

    def _write_event(self, event: Event) -> None:
        # How the script ends, it knows itself.
        if not isinstance(event, End):
            self._write_text(EVENT_MARK + to_line(event))

    def _write_text(self, text: str, *, stderr: bool = False) -> None:
        print(text, file=self._stream, flush=True)


_screen: list[Screen] = [Lines()]


def current() -> Screen:
    """Return what this process prints through: plain lines unless a script has chosen another way."""
    return _screen[-1]


@contextlib.contextmanager
def use(screen: Screen) -> Iterator[Screen]:
    """Print through a screen inside the block."""
    _screen.append(screen)
    try:
        yield screen
    finally:
        _screen.pop()
