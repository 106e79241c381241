# SPDX-License-Identifier: BSD-3-Clause
"""Reads what a child writes to standard output, line by line."""

from __future__ import annotations

import os
import selectors
import threading
from collections.abc import Callable

__all__ = ["ChildLines"]

_CHUNK = 1 << 16
"""Most that is read at once [bytes]."""

_POLL_SECONDS = 0.1
"""Time after which the reader looks whether the child has ended [s]."""


class ChildLines:
    """A pipe for a child, and a thread that hands on its lines; a context manager around the child's life."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        """Open nothing yet.

        Args:
            on_line: Called with every line, without its line feed, in the thread.
        """
        self._on_line = on_line
        self._has_ended = threading.Event()
        self._partial = b""

    def __enter__(self) -> ChildLines:
        """Open the pipe and begin to read."""
        self._outlet, self.inlet = os.pipe()
        """The descriptor that the child writes to."""

        self._thread = threading.Thread(target=self._read, name="child's lines", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Hand on what is left, even where a process that the child left behind still holds the pipe, and close it."""
        os.close(self.inlet)
        self._has_ended.set()
        self._thread.join()
        os.close(self._outlet)

    def _read(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._outlet, selectors.EVENT_READ)
            while True:
                # Asked before the pipe is looked at, so that all that was written by then is read.
                has_ended = self._has_ended.is_set()
                if not selector.select(0.0 if has_ended else _POLL_SECONDS):
                    if has_ended:
                        break
                    continue
                chunk = os.read(self._outlet, _CHUNK)
                if not chunk:
                    break
                self._split(chunk)
        if self._partial:
            self._hand_on(self._partial)

    def _split(self, chunk: bytes) -> None:
        *lines, self._partial = (self._partial + chunk).split(b"\n")
        for line in lines:
            self._hand_on(line)

    def _hand_on(self, line: bytes) -> None:
        self._on_line(line.decode(errors="replace"))
