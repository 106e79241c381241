# SPDX-License-Identifier: BSD-3-Clause
"""The standard streams of a script, which may be closed, full, or read by somebody who leaves: its work goes on."""

import contextlib
import io
import os
import select
import sys
from collections.abc import Iterator
from typing import Any, TextIO


class UserStream(io.TextIOWrapper):
    """A text stream that raises no error: what cannot be written is lost."""

    def __init__(self, descriptor: int, encoding: str = "utf-8", errors: str = "strict") -> None:
        """Write to a copy of a descriptor, which stays as it is when the descriptor is sent elsewhere."""
        # Open to the end of the process: a library's log handler may hold the stream for so long.
        buffer: Any = _Raw(os.dup(descriptor), "w", closefd=False)
        super().__init__(buffer, encoding=encoding, errors=errors, line_buffering=True)


class _Raw(io.FileIO):
    def write(self, data: Any, /) -> int:
        rest = memoryview(data)
        while rest:
            try:
                written = super().write(rest)
            except OSError:
                break
            if written is None:
                # A pipe whose other side asked not to wait.
                select.select([], [self], [])
            rest = rest[written or 0 :]
        return len(data)


@contextlib.contextmanager
def standard_streams() -> Iterator[None]:
    """Let nothing that is printed inside the block raise an error, and keep descriptors 0 to 2 from other files.

    Streams that somebody else has put in the place of Python's own stay.
    """
    _open_closed()
    before = sys.stdout, sys.stderr
    if sys.stdout is sys.__stdout__:
        sys.stdout = _robust(sys.stdout, 1, "replace")
    if sys.stderr is sys.__stderr__:
        sys.stderr = _robust(sys.stderr, 2, "backslashreplace")
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _robust(stream: TextIO | None, descriptor: int, errors: str) -> UserStream:
    """Return a stream in the place of one of Python's own, which is None where its descriptor was closed."""
    if stream is not None:
        with contextlib.suppress(OSError):
            stream.flush()
    # A letter that a terminal or a pipe cannot show must not end what prints it.
    return UserStream(descriptor, "utf-8" if stream is None else stream.encoding, errors)


def _open_closed() -> None:
    """Give closed standard descriptors to the null device: the next file or pipe would take their numbers."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
