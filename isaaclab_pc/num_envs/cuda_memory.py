# SPDX-License-Identifier: BSD-3-Clause
"""Memory of a GPU as CUDA tells it, for a process that opens no CUDA context."""

import contextlib
import subprocess
import sys
import weakref

from isaaclab_pc.processes.deadline import DEADLINE_S, answer_of

_PROGRAM = """
import sys, torch
for _ in sys.stdin:
    print("\\n%d %d" % torch.cuda.mem_get_info(sys.argv[1]), flush=True)
"""
_FIRST_S = 120.0
"""Longest time until the first answer [s]: the child imports torch and opens a CUDA context."""
_END_S = 5.0
"""Time that the child has to end [s]."""


class CudaMemory:
    """Asks a child that holds a CUDA context, of some hundred MiB of the GPU, for as long as this object lives."""

    def __init__(self, device: str) -> None:
        """Start the child."""
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, device],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Into the same pipe: nobody reads a second one, and a full one stops the child.
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._seconds = _FIRST_S
        # It also ends when this process dies: its input does.
        weakref.finalize(self, _end, self._child)

    def read(self) -> tuple[int, int]:
        """Return the memory that is free and the whole [bytes], of an instance of MIG its own.

        Raises:
            OSError: CUDA does not tell, or not in time.
        """
        try:
            free, total = answer_of(self._read, self._seconds)
        except TimeoutError as error:
            # Or the thread would read on.
            self._child.kill()
            raise OSError(f"CUDA gives {error}") from error
        self._seconds = DEADLINE_S
        return free, total

    def _read(self) -> tuple[int, int]:
        """Return the next line that is two numbers; libraries may write others before it."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        last = "it ended without a word"
        with contextlib.suppress(BrokenPipeError):
            print(file=self._child.stdin, flush=True)
        for line in self._child.stdout:
            words = line.split()
            if len(words) == 2 and all(word.isdigit() for word in words):
                return int(words[0]), int(words[1])
            last = line.strip() or last
        raise OSError(last)


def _end(child: subprocess.Popen[str]) -> None:
    child.kill()
    # A process that the driver does not let go of stays.
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(_END_S)
    for stream in (child.stdin, child.stdout):
        with contextlib.suppress(OSError):
            if stream is not None:
                stream.close()
