# SPDX-License-Identifier: BSD-3-Clause
"""What a child's native code prints, readable: a line that comes again and again is shown once, and counted.

Simulators are C and C++ and write to the descriptors 1 and 2 past Python: PhysX a line for every body that is not
finite in every physics step, MuJoCo Warp one for every environment whose constraints have no room. The parent reads
the child's descriptors through pipes, since no thread of the child could: native code may hold Python's lock while it
waits for room in a pipe. Loads neither torch nor a simulator.
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

__all__ = ["LogTail", "OutputFilter", "Repeats", "divert_output", "flood_warnings", "full_log"]

FLOOD = 10
"""Lines of a kind from which on they are told of: in the log at this number, then at each tenfold of it."""

MAX_KINDS = 500
"""Kinds of lines that are told apart; whatever comes after them is one more, so that memory and log stay bounded."""

MAX_BYTES = 8 << 20
"""Size at which the full log is moved to ``<name>.1``, in the place of what was there [bytes]."""

INLETS = "ISAACLAB_PC_NATIVE_OUTPUT"
"""Environment variable that tells a child the descriptors that its native code shall write to: ``<out>,<err>``."""

_NOTE = b"(%d such lines so far) "
_LONGEST_LINE = 1 << 16
_CHUNK = 1 << 16
_POLL_SECONDS = 0.1
_DRAIN_SECONDS = 5.0
"""How long a process that the child left behind may keep us reading [s]."""
_TAIL_BYTES = 4 << 20
_SHOWN = 5
_LINE_BUFFERED = 1

_PRIM_PATH = re.compile(rb"(?<![\w./])(?:/[A-Za-z_]\w*)+(?![\w/]|\.\w)")
_NUMBER = re.compile(rb"0x[0-9a-fA-F]+|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|-?\b(?:nan|inf)\b")


class Repeats:
    """Passes the first line of each kind, and counts the others.

    Lines are of one kind if they differ only in numbers and prim paths. Blank and indented lines always pass, and so do
    the heads of tracebacks: that is how Python, ``faulthandler`` and C++ tell of a crash.
    """

    def __init__(self) -> None:
        """Start with nothing seen."""
        self._seen: dict[bytes, tuple[bytes, int]] = {}

    def feed(self, line: bytes) -> bytes:
        """Take a line.

        Args:
            line: With its line feed.

        Returns:
            What a log should hold of it: the line, a note of how often there was such a line, or nothing.
        """
        if line[:1].isspace() or b"most recent call" in line:
            return line
        kind = _NUMBER.sub(b"#", _PRIM_PATH.sub(b"/", line))
        if kind not in self._seen and len(self._seen) >= MAX_KINDS:
            kind = b"other"
        first, count = self._seen.get(kind, (line, 0))
        self._seen[kind] = (first, count + 1)
        if count == 0:
            return line
        return b"%b%b" % (_NOTE % (count + 1), line) if _is_milestone(count + 1) else b""

    def floods(self) -> list[tuple[str, int]]:
        """Return the first line and the number of lines of each kind that came :data:`FLOOD` times, the most first."""
        found = [(first, count) for first, count in self._seen.values() if count >= FLOOD]
        found.sort(key=lambda entry: -entry[1])
        return [(first.decode(errors="replace").strip(), count) for first, count in found]


def _is_milestone(count: int) -> bool:
    while count > FLOOD and count % 10 == 0:
        count //= 10
    return count == FLOOD


def full_log(log: Path) -> Path:
    """Return where everything goes that a log's filter reads: ``<name>.native.log`` beside it."""
    return log.with_suffix(".native.log")


class OutputFilter:
    """Reads what a child prints through pipes; a context manager around the child's life.

    The log gets the first line of each kind and counts; it is opened for appending, so that the child may write its own
    lines there too. :func:`full_log` gets every line, and keeps the last :data:`MAX_BYTES` of them at least.
    """

    def __init__(self, log: Path, inlets: int = 2) -> None:
        """Prepare.

        Args:
            log: The readable log.
            inlets: Descriptors that the child gets; a line of one is never mixed with a line of another.
        """
        self._log, self._full = log, full_log(log)
        self._count = inlets
        self._repeats = Repeats()
        self._stop_at = float("inf")
        self._files: dict[Path, IO[bytes]] = {}

    def __enter__(self) -> OutputFilter:
        """Open the pipes and start to read."""
        pipes = [os.pipe() for _ in range(self._count)]
        self.inlets = [write for _, write in pipes]
        """Descriptors to write to; they are closed at the end."""
        self._partial = {read: b"" for read, _ in pipes}
        self._thread = threading.Thread(target=self._read, name="output filter", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Read what is left, also where a process that the child left behind still holds the pipes, and close all."""
        for inlet in self.inlets:
            os.close(inlet)
        self._stop_at = time.monotonic()
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
        lines = [f"note: native code printed {count} lines such as: {first}" for first, count in floods[:_SHOWN]]
        if len(floods) > _SHOWN:
            lines.append(f"note: and {sum(count for _, count in floods[_SHOWN:])} lines of other kinds")
        return [*lines, f"note: all of them are in {self._full}"] if floods else []

    def _read(self) -> None:
        with selectors.DefaultSelector() as selector:
            for read in self._partial:
                os.set_blocking(read, False)
                selector.register(read, selectors.EVENT_READ)
            while selector.get_map():
                # Asked before the look: what was written before the stop is then seen.
                over = time.monotonic() - self._stop_at
                ready = selector.select(_POLL_SECONDS if over < 0.0 else 0.0)
                if over > _DRAIN_SECONDS or (over >= 0.0 and not ready):
                    break
                for key, _ in ready:
                    chunk = os.read(key.fd, _CHUNK)
                    if not chunk:
                        selector.unregister(key.fd)
                    self._take(key.fd, chunk)
        for read, rest in self._partial.items():
            if rest:
                self._pass(rest + b"\n")
            os.close(read)

    def _take(self, read: int, chunk: bytes) -> None:
        *lines, rest = (self._partial[read] + chunk).split(b"\n")
        if len(rest) > _LONGEST_LINE:
            lines, rest = [*lines, rest], b""
        self._partial[read] = rest
        for line in lines:
            self._pass(line + b"\n")

    def _pass(self, line: bytes) -> None:
        self._write(self._full, line)
        if shown := self._repeats.feed(line):
            self._write(self._log, shown)

    def _write(self, path: Path, text: bytes) -> None:
        # A full disk must not end the reading: the child would wait for room in the pipe for ever.
        with contextlib.suppress(OSError):
            if path not in self._files:
                self._files[path] = path.open("ab", buffering=0)
            file = self._files[path]
            file.write(text)
            if path == self._full and file.tell() >= MAX_BYTES:
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
        """Return the lines that were completed since the last call, or the next part of them if they are many."""
        if not self._log.exists():
            return []
        if self._log.stat().st_size < self._read:
            self._read = 0  # it grew too large, and was begun anew
        with self._log.open("rb") as log:
            log.seek(self._read)
            chunk = log.read(_TAIL_BYTES)
        end = chunk.rfind(b"\n") + 1
        self._read += end
        return chunk[:end].decode(errors="replace").splitlines()


def flood_warnings(lines: Iterable[str]) -> list[str]:
    """Find the beginnings of floods.

    Args:
        lines: What was added to the readable log.

    Returns:
        A line for people about each.
    """
    begins = (_NOTE % FLOOD).decode()
    return [
        f"native code prints this over and over: {line.removeprefix(begins)}"
        for line in lines
        if line.startswith(begins)
    ]


def divert_output(log: Path, user: int = 1) -> IO[str]:
    """Send what this process prints to a log: Python's lines at once, those of native code through the parent's filter.

    Where the parent has none, native code writes to the log itself.

    Args:
        log: The log, that of the parent's :class:`OutputFilter`.
        user: Descriptor that the user sees, 1 or 2.

    Returns:
        A stream to that descriptor as it was.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    stream = os.fdopen(os.dup(user), "w", encoding="utf-8", buffering=1)
    # By line, so that the log is complete when native code ends the process. It outlives this function.
    file = log.open("a", encoding="utf-8", errors="backslashreplace", buffering=1)
    told = os.environ.pop(INLETS, None)
    inlets = [int(number) for number in told.split(",")] if told else []
    for number, descriptor in enumerate(inlets or [file.fileno()] * 2, start=1):
        os.dup2(descriptor, number)
    for descriptor in inlets:
        os.close(descriptor)
    sys.stdout = sys.stderr = file
    libc = ctypes.CDLL(None)
    libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, _LINE_BUFFERED, ctypes.c_size_t(0))
    return stream
