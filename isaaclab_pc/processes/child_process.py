# SPDX-License-Identifier: BSD-3-Clause
"""Run one child at a time, and end as it ended: exit codes, signals, its log.

A child is told once to stop, has time for a checkpoint, and is never left behind.
"""

import contextlib
import math
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from pathlib import Path
from types import FrameType
from typing import Any, Self

from isaaclab_pc.errors import ConfigError, describe_error, error_chain
from isaaclab_pc.processes.output_filter import INLETS, ChildLines, OutputFilter
from isaaclab_pc.processes.process_tree import ProcessTree
from isaaclab_pc.terminal.screen import current
from isaaclab_pc.utils.files import full_disk

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP)
"""Signals that end a process in good order: Ctrl-C, a scheduler that takes the machine back, a terminal that closes."""

GRACE_SECONDS = 90.0
"""Time that a child has after a signal: the rest of an iteration, a checkpoint and closing the simulator [s]."""

LOG_LINES = 25
"""Lines of a child's log that are shown when it fails."""

_POLL_SECONDS = 0.05


class ExitCode(IntEnum):
    """Exit codes of the scripts and the workers. After a signal N that is not listed it is 128 + N."""

    OK = 0
    """Done."""

    FAILED = 1
    """An error in the program, or in a library that it uses."""

    REFUSED = 2
    """The user's settings were refused; nothing was started."""

    DIVERGED = 3
    """Loss, gradient or weights stopped being finite. There is a checkpoint from before, if one was due by then."""

    STORM = 4
    """Too many environments failed. There is a checkpoint, and ``run.json`` has the physics settings to go on with."""

    DISK_FULL = 5
    """The disk was full, and what was written before is whole; or standard output was full or closed, and nothing but
    what was printed there held the result."""

    PREEMPTED = 75
    """A training run was stopped by one of :data:`STOP_SIGNALS`: try again, it goes on from its checkpoint. BSD calls
    this code EX_TEMPFAIL, and schedulers can be told to requeue a job that ends with it."""

    INTERRUPTED = 130
    """SIGINT, in anything but a training run."""


_unheeded: list[int] = []
"""Signals that came inside :func:`interruptible`, whose exceptions may have been lost: Python drops what is raised in a
callback of native code or in a destructor, and a simulator that starts runs both."""


def was_stopped(code: int) -> bool:
    """Tell whether an exit code is that of a process which one of :data:`STOP_SIGNALS` ended."""
    return code - 128 in STOP_SIGNALS


def is_stop(error: BaseException) -> bool:
    """Tell whether an exception is the one that :func:`interruptible` raises, and not a ``sys.exit`` of other code."""
    return isinstance(error, SystemExit) and isinstance(error.code, int) and was_stopped(error.code)


def handle_signals(numbers: Iterable[int], handler: Callable[[int, FrameType | None], None]) -> dict[int, Any]:
    """Install a handler and return those before; a SIGHUP that nohup had ignored stays ignored."""
    heeded = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    return {number: signal.signal(number, handler) for number in heeded}


class SignalFlag:
    """Remembers signals instead of acting on them; a context manager that restores the old handlers."""

    def __init__(self, numbers: Iterable[int] = STOP_SIGNALS) -> None:
        """Start with the signals that :func:`interruptible` could not act on."""
        self._numbers = numbers
        self.received: list[int] = [*_unheeded]
        """Numbers of the signals, in the order in which they came."""

    def __enter__(self) -> Self:
        """Install the handlers."""
        self._old_handlers = handle_signals(self._numbers, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the handlers."""
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self.received.append(number)

    @property
    def exit_code(self) -> int:
        """128 + the first signal, or 0."""
        return 128 + self.received[0] if self.received else 0

    def leave(self) -> None:
        """End the block where a signal came, by a SystemExit with :attr:`exit_code`; all is saved."""
        if self.received:
            raise SystemExit(self.exit_code)

    def wait(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Wait so long by a clock, or until a signal comes."""
        until = clock() + seconds
        while clock() < until and not self.received:
            time.sleep(_POLL_SECONDS)


def run_child(
    argv: Sequence[str],
    log: Path | None = None,
    watch: Callable[[ProcessTree], object] | None = None,
    flag: SignalFlag | None = None,
) -> int:
    """Run a child to its end, show its standard output on this script's screen, and end the screen's phase.

    :data:`STOP_SIGNALS` are passed on to the child, which has :data:`GRACE_SECONDS` after the first. The same one
    again, or the end of that time, kills it with all its descendants. In a job of SLURM, only a second SIGINT does.

    Args:
        argv: The child's command line.
        log: Log of a child that calls :func:`~isaaclab_pc.processes.output_filter.divert_output`. Native code's output
            goes there through a filter, which counts a line that is repeated over and over, and warns of it once.
        watch: Called some twenty times a second; where it returns True, the child is killed.
        flag: Remembers the signals to this process, where the caller does so for longer than the child lives.

    Returns:
        The child's exit code; 128 + N if it was ended after a signal N to this process, or died of a signal N.
    """

    def warn_of_flood(line: str) -> None:
        current().warn(f"warning: native code prints this over and over, which {log} counts from here on: {line}")

    def show(line: bytes) -> None:
        current().receive(line.decode(errors="replace"))

    try:
        with contextlib.ExitStack() as stack:
            flag = flag or stack.enter_context(SignalFlag())
            inlets = [] if log is None else stack.enter_context(OutputFilter(log, on_flood=warn_of_flood)).inlets
            tree = ProcessTree(
                argv,
                stack.enter_context(ChildLines(show)).inlets[0],
                {**os.environ, INLETS: ",".join(map(str, inlets))} if inlets else None,
                pass_fds=inlets,
                # So that it still writes its checkpoint if this process is killed.
                on_our_death=signal.SIGTERM,
                expendable=False,
                keep_stderr=True,
            )
            code = _wait(stack.enter_context(tree), flag, watch)
            if code is None:
                return flag.exit_code or ExitCode.FAILED
            return code if code >= 0 else flag.exit_code or 128 - code
    finally:
        current().end_phase()


def _wait(child: ProcessTree, flag: SignalFlag, watch: Callable[[ProcessTree], object] | None) -> int | None:
    """Wait for the child, passing on signals. None: it has to be killed."""
    passed_on: list[int] = []
    deadline = math.inf
    while True:
        code = child.wait(_POLL_SECONDS)
        if code is not None:
            return code

        for number in flag.received[len(passed_on) :]:
            # SLURM repeats its signals, and has a SIGKILL for those that do not end.
            if number in passed_on and (number == signal.SIGINT or "SLURM_JOB_ID" not in os.environ):
                return None
            if not passed_on:
                deadline = time.monotonic() + GRACE_SECONDS
                again = "Ctrl-C again stops at once" if number == signal.SIGINT else f"within {GRACE_SECONDS:.0f} s"
                current().say(f"\nstopping; {again}", stderr=True)
            child.send_signal(number)
            passed_on.append(number)
        if time.monotonic() > deadline:
            return None
        if watch is not None and watch(child) is True:
            return None


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let :data:`STOP_SIGNALS` end the block with a SystemExit of code 128 + N, where there is nothing to save.

    A :class:`SignalFlag` inside of it knows a signal whose exception was lost.
    """

    def leave(number: int, _frame: FrameType | None) -> None:
        _unheeded.append(number)
        raise SystemExit(128 + number)

    old_handlers = handle_signals(STOP_SIGNALS, leave)
    try:
        yield
    finally:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)
        _unheeded.clear()


def exit_code_of(work: Callable[[], int]) -> int:
    """Run a script's or a child's work, and turn its exceptions into exit codes.

    :data:`STOP_SIGNALS` raise an exception in it. The screen shows the message of a ConfigError and of a full disk.

    Returns:
        The code of ``work``; 2 after a ConfigError, also one that another error hides; 5 where the disk is full;
        128 + N after a signal; 1 after any other exception, with a traceback on standard error.
    """
    try:
        with interruptible():
            return work()
    except ConfigError as error:
        current().fail(str(error))
        return ExitCode.REFUSED
    except SystemExit as error:
        # From a signal, with its code; or from Isaac Lab, which exits where Kit is missing and has printed why.
        return error.code if isinstance(error.code, int) else ExitCode.FAILED
    except Exception as error:
        if full := full_disk(error):
            current().fail(f"the disk is full ({full}): make room, then go on")
            return ExitCode.DISK_FULL
        traceback.print_exc()
        for hidden in error_chain(error):
            if isinstance(hidden, ConfigError):
                current().fail(str(hidden))
                return ExitCode.REFUSED
        if len(error_chain(error)) > 1:
            # The end of a log is what is looked at, and a traceback has there what failed last.
            print(describe_error(error), file=sys.stderr)
        return ExitCode.FAILED


def show_log(path: Path, code: int, *, keep: bool = False) -> None:
    """Print the end of a failed child's log, and where the rest is; ``keep`` moves it out of a folder to be removed."""
    if keep and path.is_file():
        path = Path(shutil.move(path, Path(tempfile.mkdtemp(prefix="isaaclab_pc-")) / path.name))
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
    for line in lines[-LOG_LINES:]:
        current().say(line, stderr=True)
    current().fail(f"the worker ended with exit code {code}; all of its output is in {path}")
