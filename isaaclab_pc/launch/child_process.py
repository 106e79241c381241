# SPDX-License-Identifier: BSD-3-Clause
"""One child at a time: signalled once, given time for a checkpoint, never left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from pathlib import Path
from types import FrameType

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.output_filter import INLETS, OutputFilter
from isaaclab_pc.process_tree import ProcessTree

__all__ = [
    "ExitCode",
    "SignalFlag",
    "exit_code_of",
    "interruptible",
    "run_child",
    "run_script",
    "show_log",
    "worker_command",
]

GRACE_SECONDS = 90.0
"""Time that a child has after a signal: the rest of an iteration, a checkpoint and closing the simulator [s]."""

LOG_LINES = 25
"""Lines of a child's log that are shown when it fails."""

_POLL_SECONDS = 0.05


class ExitCode(IntEnum):
    """How the scripts and the worker end; after another signal N it is 128 + N."""

    OK = 0
    """What was asked for is done."""

    FAILED = 1
    """An error of the program, or of something that it uses."""

    REFUSED = 2
    """The user's settings do not fit; nothing was started."""

    DIVERGED = 3
    """Loss, gradient or weights stopped being finite; a checkpoint from before is there if there was time for one."""

    STORM = 4
    """Too many environments failed; there is a checkpoint, and ``run.json`` has the physics to go on with."""

    INTERRUPTED = 130
    """SIGINT; a training run has written a checkpoint."""

    TERMINATED = 143
    """SIGTERM; likewise."""


class SignalFlag:
    """Remember SIGINT and SIGTERM instead of acting on them; a context manager that restores the old handlers."""

    def __init__(self) -> None:
        """Start with no signal received."""
        self.received: list[int] = []

    def __enter__(self) -> SignalFlag:
        """Install the handlers."""
        self._old = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the handlers."""
        for number, handler in self._old.items():
            signal.signal(number, handler)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.received.append(number)

    @property
    def exit_code(self) -> int:
        """128 + the first signal, or 0."""
        return 128 + self.received[0] if self.received else 0


def worker_command(mode: str, settings: Path, **options: object) -> list[str]:
    """Return the command line of a worker.

    Args:
        mode: What it does: a name of :data:`isaaclab_pc.workers.__main__.MODES`.
        settings: The settings file that it reads.
        **options: The worker's options by name; those that are None are left out.
    """
    command = [sys.executable, "-m", "isaaclab_pc.workers", mode, str(settings)]
    for name, value in options.items():
        if value is not None:
            command.extend([f"--{name.replace('_', '-')}", str(value)])
    return command


def run_child(argv: Sequence[str], grace: float = GRACE_SECONDS, log: Path | None = None) -> int:
    """Run a child to its end.

    The first SIGINT or SIGTERM is passed on to the child, which may then take ``grace`` seconds. A second one, or the
    end of that time, kills it with all its descendants.

    Args:
        argv: The child's command line.
        grace: Time between the first signal and the kill [s].
        log: Where the child diverts its output to, with :func:`~isaaclab_pc.output_filter.divert_output`: what native
            code prints is filtered, and floods of it are told of at the end.

    Returns:
        The child's exit code; 130 or 143 where a signal ended it; 128 + N where it died of signal N by itself.
    """
    if log is None:
        return _run(argv, grace, ())
    with OutputFilter(log) as output:
        code = _run(argv, grace, output.inlets)
    for line in output.summary():
        print(line, file=sys.stderr, flush=True)
    return code


def _run(argv: Sequence[str], grace: float, inlets: Sequence[int]) -> int:
    environment = {**os.environ, INLETS: ",".join(map(str, inlets))} if inlets else None
    with (
        SignalFlag() as flag,
        # Where we are killed, it still writes its checkpoint.
        ProcessTree(argv, None, environment, pass_fds=inlets, on_our_death=signal.SIGTERM, expendable=False) as child,
    ):
        code = _wait(child, flag, grace)
    if code is None:
        return flag.exit_code
    return flag.exit_code or 128 - code if code < 0 else code


def _wait(child: ProcessTree, flag: SignalFlag, grace: float) -> int | None:
    """Wait for the child, passing on the first signal; None where it has to be killed."""
    handled = 0
    deadline = float("inf")
    while True:
        code = child.wait(_POLL_SECONDS)
        if code is not None:
            return code

        if len(flag.received) > handled:
            handled = len(flag.received)
            if handled > 1:
                return None
            print("\nstopping at the end of this iteration; Ctrl-C again stops at once", file=sys.stderr, flush=True)
            child.send_signal(flag.received[0])
            deadline = time.monotonic() + grace
        if time.monotonic() > deadline:
            return None


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGINT and SIGTERM unwind the stack, for phases in which there is nothing to save.

    Raises:
        SystemExit: With code 130 or 143, inside the block, where the signal arrives.
    """

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    old = {number: signal.signal(number, leave) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def _to_stderr(message: str) -> None:
    print(f"error: {message}", file=sys.stderr)


def exit_code_of(work: Callable[[], int], refuse: Callable[[str], object] = _to_stderr) -> int:
    """Do what a script or a child is for, and turn the way it ends into an exit code.

    SIGINT and SIGTERM unwind the stack, as in :func:`interruptible`.

    Args:
        work: Returns the exit code.
        refuse: Tells the user why the input was refused.

    Returns:
        What ``work`` returned; 2 where it raised a ConfigError; 130 and 143 after SIGINT and SIGTERM; 1 after any other
        exception, whose traceback goes to standard error.
    """
    try:
        with interruptible():
            return work()
    except ConfigError as error:
        refuse(str(error))
        return ExitCode.REFUSED
    except SystemExit as error:
        # Isaac Lab leaves this way where Kit is missing, having printed why; our own signals come with their code.
        return error.code if isinstance(error.code, int) else ExitCode.FAILED
    except Exception:
        traceback.print_exc()
        return ExitCode.FAILED


def run_script(argv: Sequence[str], help_text: str, work: Callable[[Sequence[str]], int]) -> int:
    """Print a script's help where it is asked for, else do its work.

    Args:
        argv: Arguments without the program's name.
        help_text: What ``-h`` and ``--help`` print.
        work: Takes the arguments and returns the exit code.

    Returns:
        The exit code: 0 after help, else that of :func:`exit_code_of`.
    """
    if {"-h", "--help"} & set(argv):
        print(help_text)
        return 0
    return exit_code_of(lambda: work(argv))


def show_log(path: Path, code: int) -> None:
    """Print the end of a failed child's log, and where the rest is.

    Args:
        path: The log.
        code: The child's exit code.
    """
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
    print("\n".join(lines[-LOG_LINES:]), file=sys.stderr)
    print(f"error: the worker ended with exit code {code}; all of its output is in {path}", file=sys.stderr)
