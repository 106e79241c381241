# SPDX-License-Identifier: BSD-3-Clause
"""Run a script: its help, the screen it prints to, and its exit code."""

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

from isaaclab_pc.cli.command_line import JSON_FLAG, split_own
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.processes.child_process import ExitCode, exit_code_of, was_stopped
from isaaclab_pc.settings.output import OutputSettings
from isaaclab_pc.terminal.live import LiveScreen, is_terminal
from isaaclab_pc.terminal.program_name import as_started
from isaaclab_pc.terminal.screen import JsonScreen, Lines, Screen, current, use
from isaaclab_pc.terminal.user_stream import UserStream, standard_streams

_OUTPUT_HELP = f"""
Output (docs/reading-output.md)
  quiet=true         print only what was decided, warnings, the result, and what was made
  {JSON_FLAG}             one JSON object a line, for programs; everything else goes to standard error
  Exit code 5         also where a result that is in no file cannot be written to standard output
"""


def script(
    help_text: str, when_stopped: int | None = None
) -> Callable[[Callable[[Sequence[str]], int]], Callable[[Sequence[str]], int]]:
    """Turn the work of a script into its ``main``, by :func:`run_script`."""

    def decorate(work: Callable[[Sequence[str]], int]) -> Callable[[Sequence[str]], int]:
        @functools.wraps(work)
        def main(argv: Sequence[str]) -> int:
            return run_script(argv, help_text, work, when_stopped)

        return main

    return decorate


def run_script(
    argv: Sequence[str],
    help_text: str,
    work: Callable[[Sequence[str]], int],
    when_stopped: int | None = None,
) -> int:
    """Print a script's help if it is asked for; otherwise run its work.

    ``when_stopped`` is the exit code of a script that was stopped by a signal; None: 128 + N.

    Returns:
        0 after the help, otherwise as :func:`exit_code_of`; 5 instead of 0 where the script made no file, and standard
        output could not be written.
    """
    with standard_streams() as lost:
        made: Mapping[str, Sequence[str]] = {}
        if {"-h", "--help"} & set(argv):
            print(as_started(help_text.rstrip("\n") + "\n" + _OUTPUT_HELP), end="")
            code = int(ExitCode.OK)
        else:
            try:
                with output(argv) as (screen, others):
                    code = exit_code_of(lambda: work(others))
                    if when_stopped is not None and was_stopped(code):
                        code = when_stopped
                    screen.close(code)
                made = screen.files
            except ConfigError as error:
                current().fail(str(error))
                code = int(ExitCode.REFUSED)
        return _checked_output(code, lost(), made)


def _checked_output(code: int, lost: str, made: Mapping[str, Sequence[str]]) -> int:
    """Return another exit code where a result that is in no file was lost; name the files again otherwise."""
    if not lost or code != ExitCode.OK:
        return code
    why = f"standard output cannot be written ({lost})"
    if made:
        files = (f"{what}: {path}" for what, paths in made.items() for path in paths)
        current().warn("\n".join([f"warning: {why}", *files]))
        return code
    current().fail(f"{why}, and the result is lost")
    return ExitCode.DISK_FULL


@contextlib.contextmanager
def output(argv: Sequence[str]) -> Iterator[tuple[Screen, list[str]]]:
    """Choose the screen of a script, which ``current`` returns inside the block; yield it and the other arguments.

    Raises:
        ConfigError: ``quiet`` is neither true nor false, or is given with ``--json``.
    """
    own, others = split_own(argv, OutputSettings)
    if JSON_FLAG not in others:
        live = is_terminal(sys.stdout) and not own.quiet
        with use(LiveScreen(sys.stdout) if live else Lines(quiet=own.quiet)) as screen:
            yield screen, others
        return

    if own.quiet:
        raise ConfigError(f"quiet=true and {JSON_FLAG}: programs read what they need; give one of them.")
    with _json_screen() as screen, use(screen):
        yield screen, [argument for argument in others if argument != JSON_FLAG]


@contextlib.contextmanager
def _json_screen() -> Iterator[Screen]:
    """Keep standard output for events: what libraries and children print goes to standard error."""
    sys.stdout.flush()
    events = sys.stdout if isinstance(sys.stdout, UserStream) else UserStream(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield JsonScreen(events)
    finally:
        os.dup2(events.fileno(), 1)
