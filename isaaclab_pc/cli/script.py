# SPDX-License-Identifier: BSD-3-Clause
"""Run a script: its help, the screen it prints to, and its exit code."""

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator, Sequence

from isaaclab_pc.cli.command_line import JSON_FLAG
from isaaclab_pc.processes.child_process import ExitCode, exit_code_of, was_stopped
from isaaclab_pc.terminal.live import LiveScreen, is_terminal
from isaaclab_pc.terminal.program_name import as_started
from isaaclab_pc.terminal.screen import JsonScreen, Lines, Screen, use
from isaaclab_pc.terminal.user_stream import UserStream, standard_streams

_OUTPUT_HELP = f"""
Output (docs/reading-output.md)
  {JSON_FLAG}             one JSON object a line, for programs; everything else goes to standard error
"""

Work = Callable[[Sequence[str]], int]
"""Takes the arguments of a command line, and returns an exit code."""


def script(help_text: str, when_stopped: int | None = None) -> Callable[[Work], Callable[..., int]]:
    """Turn the work of a script into its ``main``, which also prints its help, and chooses how it prints.

    It takes the program's arguments unless others are given. ``when_stopped`` is the exit code after a signal; None:
    128 + N. Otherwise the code is that of :func:`exit_code_of`.
    """

    def decorate(work: Work) -> Callable[..., int]:
        @functools.wraps(work)
        def main(argv: Sequence[str] | None = None) -> int:
            argv = sys.argv[1:] if argv is None else argv
            with standard_streams():
                if {"-h", "--help"} & set(argv):
                    print(as_started(help_text.rstrip("\n") + "\n" + _OUTPUT_HELP), end="")
                    return ExitCode.OK
                with _output(argv) as (screen, others):
                    code = exit_code_of(lambda: work(others))
                    if when_stopped is not None and was_stopped(code):
                        code = when_stopped
                    screen.close(code)
                return code

        return main

    return decorate


@contextlib.contextmanager
def _output(argv: Sequence[str]) -> Iterator[tuple[Screen, list[str]]]:
    """Choose the screen of a script, which ``current`` returns inside the block; yield it and the other arguments."""
    if JSON_FLAG not in argv:
        with use(LiveScreen(sys.stdout) if is_terminal(sys.stdout) else Lines()) as screen:
            yield screen, list(argv)
        return

    # Standard output is for events: what libraries and children print goes to standard error.
    sys.stdout.flush()
    events = sys.stdout if isinstance(sys.stdout, UserStream) else UserStream(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr), use(JsonScreen(events)) as screen:
            yield screen, [argument for argument in argv if argument != JSON_FLAG]
    finally:
        os.dup2(events.fileno(), 1)
