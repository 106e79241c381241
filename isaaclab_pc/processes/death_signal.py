# SPDX-License-Identifier: BSD-3-Clause
"""Ties a child to its parent by a signal that the kernel sends when the parent dies (Linux).

Runs as a script of its own, without site-packages: the child starts in milliseconds.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def tied_to_this_process(argv: Sequence[str], on_our_death: signal.Signals, *, expendable: bool = False) -> list[str]:
    """Return the command line of a child that gets a signal when this process dies, even by SIGKILL.

    An ``expendable`` child volunteers to be the first victim of the kernel's out-of-memory killer.
    """
    tie = (str(os.getpid()), str(int(on_our_death)), str(int(expendable)))
    return [sys.executable, "-I", "-S", __file__, *tie, *argv]


def _run_as_child() -> None:
    """Tie this process to its parent, then become the program that is named on the command line."""
    parent, death_signal, expendable, *argv = sys.argv[1:]
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(death_signal))
    if os.getppid() != int(parent):  # it ended before the line above
        return
    if int(expendable):
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        sys.exit(f"{argv[0]}: {error.strerror}")


if __name__ == "__main__":
    _run_as_child()
