# SPDX-License-Identifier: BSD-3-Clause
"""A readable log of what a child's native code prints: a line that comes again and again is logged once, and counted.

Simulators are written in C and C++, and print to the file descriptors 1 and 2 without Python's knowledge: PhysX a line
for every body that is not finite in every physics step, MuJoCo Warp one for every environment whose constraints have no
room. The parent reads these descriptors through pipes. A thread of the child could not: native code may hold Python's
lock while it waits for room in the pipe. Loads neither torch nor a simulator.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import selectors
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from isaaclab_pc.user_stream import UserStream

__all__ = ["LogTail", "OutputFilter", "Repeats", "divert_output", "flood_warnings", "full_log", "share_inlet"]

FLOOD = 10
"""Number of lines of one kind that is a flood: the log says so at this number, and then at each tenfold of it."""

MAX_KINDS = 500
"""Kinds of lines that are told apart; all later ones count as one more kind, so that memory and log stay bounded."""

MAX_BYTES = 8 << 20
"""Size at which the full log is moved to ``<name>.1``, where it replaces an earlier one [bytes]."""

INLETS = "ISAACLAB_PC_NATIVE_OUTPUT"
"""Environment variable that tells a child the descriptors that its native code must write to: ``<out>,<err>``."""

_COUNT_NOTE = b"(%d such lines so far) "
"""What a repeated line is logged with."""

_LONGEST_LINE = 1 << 16
"""Length at which a line without a line feed is passed on [bytes]."""

_CHUNK = 1 << 16
"""Most that is read from a pipe at once [bytes]."""

_POLL_SECONDS = 0.1
"""Time after which the reader looks whether the child has ended [s]."""

_DRAIN_SECONDS = 5.0
"""How long reading goes on where a process that the child left behind still writes [s]."""

_TAIL_BYTES = 4 << 20
"""Most that :meth:`LogTail.lines` reads at once [bytes]."""

_MAX_SUMMARY_LINES = 5
"""Floods that the summary shows one by one."""

_LINE_BUFFERED = 1
"""``_IOLBF`` of C's ``setvbuf``."""

_PRIM_PATH = re.compile(rb"(?<![\w./])(?:/[A-Za-z_]\w*)+(?![\w/]|\.\w)")
_NUMBER = re.compile(rb"0x[0-9a-fA-F]+|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|-?\b(?:nan|inf)\b")


class Repeats:
    """Passes the first line of each kind, and counts the others.

    Lines are of one kind if they differ only in numbers and prim paths. Blank and indented lines always pass, and so do
    the first lines of tracebacks: this is what Python, ``faulthandler`` and C++ print at a crash.
    """

    def __init__(self) -> None:
        """Start with nothing seen."""
        self._seen: dict[bytes, tuple[bytes, int]] = {}

    def feed(self, line: bytes) -> bytes:
        """Take a line.

        Args:
            line: With its line feed.

        Returns:
            What to log: the line, the line with the number of such lines so far, or nothing.
        """
        if line[:1].isspace() or b"most recent call" in line:
            return line

        kind = _NUMBER.sub(b"#", _PRIM_PATH.sub(b"/", line))
        if kind not in self._seen and len(self._seen) >= MAX_KINDS:
            kind = b"other"
        first, before = self._seen.get(kind, (line, 0))
        count = before + 1
        self._seen[kind] = (first, count)

        if count == 1:
            return line
        return _COUNT_NOTE % count + line if _is_milestone(count) else b""

    def floods(self) -> list[tuple[str, int]]:
        """Return the first line and the count of each kind with at least :data:`FLOOD` lines, largest count first."""
        found = [(first, count) for first, count in self._seen.values() if count >= FLOOD]
        found.sort(key=lambda entry: -entry[1])
        return [(first.decode(errors="replace").strip(), count) for first, count in found]


def _is_milestone(count: int) -> bool:
    """Tell whether a count is :data:`FLOOD` or a tenfold, hundredfold, ... of it."""
    while count > FLOOD and count % 10 == 0:
        count //= 10
    return count == FLOOD


def full_log(log: Path) -> Path:
    """Return the file beside a log that gets every line of native code: ``<name>.native.log``."""
    return log.with_suffix(".native.log")


class OutputFilter:
    """Reads what a child prints through pipes; a context manager around the child's life.

    The log gets the first line of each kind, and counts. It is opened for appending, so that the child may write its
    own lines there too. :func:`full_log` gets every line, and keeps at least the last :data:`MAX_BYTES`.
    """

    def __init__(self, log: Path, inlets: int = 2) -> None:
        """Take the settings; nothing is opened yet.

        Args:
            log: The readable log.
            inlets: Number of descriptors for the child; a line of one is never mixed with a line of another.
        """
        self._log = log
        self._full_log = full_log(log)
        self._num_inlets = inlets
        self._repeats = Repeats()
        self._ended_at = float("inf")
        self._files: dict[Path, IO[bytes]] = {}

    def __enter__(self) -> OutputFilter:
        """Open the pipes and start to read."""
        pipes = [os.pipe() for _ in range(self._num_inlets)]
        self.inlets = [write for _, write in pipes]
        """Descriptors for the child to write to; they are closed at the end."""

        self._partial = {read: b"" for read, _ in pipes}
        self._thread = threading.Thread(target=self._read, name="output filter", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Read what is left, even where a process that the child left behind still holds the pipes, and close all."""
        for inlet in self.inlets:
            os.close(inlet)
        self._ended_at = time.monotonic()
        self._thread.join()

        for first, count in self.floods:
            self._write(self._log, f"(in all {count} lines such as) {first}\n".encode())
        for file in self._files.values():
            file.close()

    @property
    def floods(self) -> list[tuple[str, int]]:
        """What was printed over and over, as of :meth:`Repeats.floods`."""
        return self._repeats.floods()

    def summary(self) -> list[str]:
        """Return lines for people about what was printed over and over; empty where nothing was."""
        floods = self.floods
        if not floods:
            return []

        shown = floods[:_MAX_SUMMARY_LINES]
        others = floods[_MAX_SUMMARY_LINES:]
        lines = [f"note: native code printed {count} lines such as: {first}" for first, count in shown]
        if others:
            lines.append(f"note: and {sum(count for _, count in others)} lines of other kinds")
        return [*lines, f"note: all of them are in {self._full_log}"]

    def _read(self) -> None:
        with selectors.DefaultSelector() as selector:
            for read in self._partial:
                os.set_blocking(read, False)
                selector.register(read, selectors.EVENT_READ)
            while selector.get_map():
                # The time is taken before the pipes are looked at, so that all that was written by then is read.
                since_end = time.monotonic() - self._ended_at
                has_ended = since_end >= 0.0
                ready = selector.select(0.0 if has_ended else _POLL_SECONDS)
                if since_end > _DRAIN_SECONDS or (has_ended and not ready):
                    break

                for key, _ in ready:
                    chunk = os.read(key.fd, _CHUNK)
                    if not chunk:
                        selector.unregister(key.fd)
                    self._split_into_lines(key.fd, chunk)

        for read, rest in self._partial.items():
            if rest:
                self._log_line(rest + b"\n")
            os.close(read)

    def _split_into_lines(self, read: int, chunk: bytes) -> None:
        *lines, rest = (self._partial[read] + chunk).split(b"\n")
        if len(rest) > _LONGEST_LINE:
            lines.append(rest)
            rest = b""
        self._partial[read] = rest

        for line in lines:
            self._log_line(line + b"\n")

    def _log_line(self, line: bytes) -> None:
        self._write(self._full_log, line)
        shown = self._repeats.feed(line)
        if shown:
            self._write(self._log, shown)

    def _write(self, path: Path, text: bytes) -> None:
        # A full disk must not end this thread: the child would wait for room in the pipe for ever.
        with contextlib.suppress(OSError):
            if path not in self._files:
                self._files[path] = path.open("ab", buffering=0)
            file = self._files[path]
            file.write(text)

            if path == self._full_log and file.tell() >= MAX_BYTES:
                file.close()
                path.replace(path.with_name(f"{path.name}.1"))
                del self._files[path]


class LogTail:
    """Reads what is added to a log."""

    def __init__(self, log: Path) -> None:
        """Start at the log's present end.

        Args:
            log: The file; it may not exist yet.
        """
        self._log = log
        self._read = log.stat().st_size if log.exists() else 0

    def lines(self) -> list[str]:
        """Return the lines that were completed since the last call, or the first part of them if they are many."""
        if not self._log.exists():
            return []

        # A log that grew too large was moved away, and a new one begun.
        if self._log.stat().st_size < self._read:
            self._read = 0

        with self._log.open("rb") as log:
            log.seek(self._read)
            chunk = log.read(_TAIL_BYTES)

        end = chunk.rfind(b"\n") + 1
        self._read += end
        return chunk[:end].decode(errors="replace").splitlines()


def flood_warnings(lines: Iterable[str]) -> list[str]:
    """Tell which lines have just become a flood.

    Args:
        lines: What was added to the readable log.

    Returns:
        A line for people about each flood that begins in these lines.
    """
    first_note = (_COUNT_NOTE % FLOOD).decode()
    return [
        f"native code prints this over and over: {line.removeprefix(first_note)}"
        for line in lines
        if line.startswith(first_note)
    ]


def divert_output(log: Path, user: int = 1) -> IO[str]:
    """Send what this process prints to a log: Python's lines directly, native code's through the parent's filter.

    Without such a filter native code writes to the log directly, too.

    Args:
        log: The log, that of the parent's :class:`OutputFilter`.
        user: Descriptor that the user sees, 1 or 2.

    Returns:
        A stream to that descriptor as it was.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    stream = UserStream(user)

    # Written line by line, so that the log is complete when native code ends the process.
    file = log.open("a", encoding="utf-8", errors="backslashreplace", buffering=1)

    given = os.environ.pop(INLETS, None)
    inlets = [int(number) for number in given.split(",")] if given else []
    for number, descriptor in enumerate(inlets or [file.fileno()] * 2, start=1):
        os.dup2(descriptor, number)
    for descriptor in inlets:
        if descriptor > 2:
            os.close(descriptor)

    sys.stdout = file
    sys.stderr = file
    # C buffers whole blocks where it does not write to a terminal.
    libc = ctypes.CDLL(None)
    libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, _LINE_BUFFERED, ctypes.c_size_t(0))
    return stream


def share_inlet() -> None:
    """Pass the parent's filter on to children that get no descriptors but the standard ones: it is standard error."""
    given = os.environ.get(INLETS)
    if given is None:
        return
    inlets = [int(number) for number in given.split(",")]
    os.dup2(inlets[-1], 2)
    for descriptor in inlets:
        os.close(descriptor)
    os.environ[INLETS] = "2,2"
