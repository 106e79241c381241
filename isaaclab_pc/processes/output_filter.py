# SPDX-License-Identifier: BSD-3-Clause
"""Reads the output of a child line by line, and keeps a flood of native lines out of its log.

Simulators print to the descriptors 1 and 2 past Python: PhysX a line for every body that is not finite in every physics
step. The parent reads them through pipes. A thread of the child could not: native code may hold Python's lock while it
waits for room in the pipe.
"""

import contextlib
import ctypes
import os
import re
import selectors
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Self

from isaaclab_pc.terminal.user_stream import UserStream

FLOOD = 100
"""Lines of one kind that the log gets; later ones are counted."""

MAX_KINDS = 500
"""Kinds of lines that are told apart; all later ones count as one more kind, so that memory and log stay bounded."""

INLETS = "ISAACLAB_PC_NATIVE_OUTPUT"
"""Environment variable that tells a child the descriptors that its native code must write to: ``<out>,<err>``."""

_CHUNK = 1 << 16
"""Most that is read from a pipe at once, and length at which a line without a line feed is passed on [bytes]."""

_POLL_SECONDS = 0.1
"""Time after which the reader looks whether the child has ended [s]."""

_DRAIN_SECONDS = 5.0
"""How long reading goes on where a process that the child left behind still writes [s]."""

_PRIM_PATH = re.compile(rb"(?<![\w./])(?:/[A-Za-z_]\w*)+(?![\w/]|\.\w)")
_NUMBER = re.compile(rb"0x[0-9a-fA-F]+|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|-?\b(?:nan|inf)\b")


class ChildLines:
    """Pipes for a child, and a thread that hands on its lines; a context manager around the child's life."""

    def __init__(self, on_line: Callable[[bytes], object], pipes: int = 1) -> None:
        """Call ``on_line`` in the thread with every line of every pipe, without its line feed."""
        self._on_line = on_line
        self._num_pipes = pipes
        self._ended_at = float("inf")

    def __enter__(self) -> Self:
        """Open the pipes and start to read."""
        pipes = [os.pipe() for _ in range(self._num_pipes)]
        self.inlets = [inlet for _, inlet in pipes]
        """Descriptors for the child to write to; they are closed at the end."""

        self._partial = {outlet: b"" for outlet, _ in pipes}
        self._thread = threading.Thread(target=self._read, name="child's lines", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Hand on what is left, even where a process that the child left behind still holds the pipes."""
        for inlet in self.inlets:
            os.close(inlet)
        self._ended_at = time.monotonic()
        self._thread.join()

    def _read(self) -> None:
        with selectors.DefaultSelector() as selector:
            for outlet in self._partial:
                selector.register(outlet, selectors.EVENT_READ)
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
                    self._split(key.fd, chunk)

        for outlet, rest in self._partial.items():
            if rest:
                self._on_line(rest)
            os.close(outlet)

    def _split(self, outlet: int, chunk: bytes) -> None:
        *lines, rest = (self._partial[outlet] + chunk).split(b"\n")
        if len(rest) > _CHUNK:
            lines.append(rest)
            rest = b""
        self._partial[outlet] = rest
        for line in lines:
            self._on_line(line)


class Repeats:
    """Counts lines by kind: those of one kind differ only in numbers and prim paths."""

    def __init__(self) -> None:
        """Start with nothing seen."""
        self._seen: dict[bytes, tuple[bytes, int]] = {}

    def count(self, line: bytes) -> int:
        """Return how many lines of its kind have come with this one.

        It is 0 for what Python and C++ print at a crash: blank and indented lines, and first lines of tracebacks.
        """
        if not line or line[:1].isspace() or b"most recent call" in line:
            return 0
        kind = _NUMBER.sub(b"#", _PRIM_PATH.sub(b"/", line))
        if kind not in self._seen and len(self._seen) >= MAX_KINDS:
            kind = b"other"
        first, before = self._seen.get(kind, (line, 0))
        self._seen[kind] = (first, before + 1)
        return before + 1

    def floods(self) -> list[tuple[str, int]]:
        """Return the first line and the count of each kind with more than :data:`FLOOD` lines, largest count first."""
        found = [(first, count) for first, count in self._seen.values() if count > FLOOD]
        found.sort(key=lambda entry: -entry[1])
        return [(first.decode(errors="replace").strip(), count) for first, count in found]


class OutputFilter(ChildLines):
    """Writes native output to a log, but for lines of a kind that came :data:`FLOOD` times; its end counts those.

    The log is opened for appending, so that the child may write its own lines there too.
    """

    def __init__(self, log: Path, inlets: int = 2, on_flood: Callable[[str], object] | None = None) -> None:
        """Filter ``inlets`` descriptors into ``log``; call ``on_flood`` in the thread with the first line left out."""
        super().__init__(self._take, inlets)
        self._log = log
        self._file: IO[bytes] | None = None
        self.repeats = Repeats()
        """All that came so far."""
        self._on_flood = on_flood

    def __exit__(self, *error: object) -> None:
        """Read what is left, and count what was left out."""
        super().__exit__(*error)
        for first, count in self.repeats.floods():
            self._write(f"(in all {count} lines such as) {first}".encode())
        if self._file is not None:
            self._file.close()

    def _take(self, line: bytes) -> None:
        count = self.repeats.count(line)
        if count <= FLOOD:
            self._write(line)
        elif count == FLOOD + 1:
            self._write(b"(from here on, such lines are only counted) " + line)
            if self._on_flood is not None:
                self._on_flood(line.decode(errors="replace"))

    def _write(self, line: bytes) -> None:
        # A full disk must not end this thread: the child would wait for room in the pipe for ever.
        with contextlib.suppress(OSError):
            if self._file is None:
                self._file = self._log.open("ab", buffering=0)
            self._file.write(line + b"\n")


def divert_output(log: Path) -> IO[str]:
    """Send what this process prints to a log: Python's lines directly, native code's through the parent's filter.

    The log is that of the parent's :class:`OutputFilter`; without one, native code writes there directly. Returns a
    stream to what was standard output, which the user sees.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    stream = UserStream(1)

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
    # C buffers whole blocks where it does not write to a terminal; 1, its _IOLBF, stands for lines.
    libc = ctypes.CDLL(None)
    libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, 1, ctypes.c_size_t(0))
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
