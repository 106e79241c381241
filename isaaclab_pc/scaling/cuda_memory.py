# SPDX-License-Identifier: BSD-3-Clause
"""Memory of a GPU as CUDA tells it, for a process that opens no CUDA context."""

import subprocess
import sys
import weakref

__all__ = ["CudaMemory"]

_PROGRAM = """
import sys, torch
for _ in sys.stdin:
    print(*torch.cuda.mem_get_info(sys.argv[1]), flush=True)
"""
_END_S = 5.0
"""Time that the child has to end [s]."""


class CudaMemory:
    """Asks a child that holds a CUDA context, of some hundred MiB of the GPU, for as long as this object lives."""

    def __init__(self, device: str) -> None:
        """Start the child.

        Args:
            device: "cuda" or "cuda:N".
        """
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, device],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        # It also ends when this process dies: its input does.
        weakref.finalize(self, _end, self._child)

    def read(self) -> tuple[int, int]:
        """Return the memory that is free and the whole [bytes], of an instance of MIG its own.

        Raises:
            OSError: CUDA does not tell.
        """
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        assert self._child.stderr is not None
        try:
            print(file=self._child.stdin, flush=True)
            free, total = map(int, self._child.stdout.readline().split())
        except (OSError, ValueError) as error:
            last = (self._child.stderr.read().strip().splitlines() or ["it ended without a word"])[-1]
            raise OSError(last) from error
        return free, total


def _end(child: subprocess.Popen[str]) -> None:
    child.kill()
    with child:
        child.wait(_END_S)
