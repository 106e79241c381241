# SPDX-License-Identifier: BSD-3-Clause
"""How a script prints: as its command line and its terminal say."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.launch.command_line import JSON_FLAG, split_own
from isaaclab_pc.settings.output import OutputSettings
from isaaclab_pc.terminal.live import LiveScreen, is_terminal
from isaaclab_pc.terminal.screen import JsonScreen, Lines, Screen, use
from isaaclab_pc.user_stream import UserStream

__all__ = ["OUTPUT_HELP", "output"]

OUTPUT_HELP = f"""
Output (docs/reading-output.md)
  quiet=true         print only what was decided, warnings, the result, and what was made
  {JSON_FLAG}             one JSON object a line, for programs; everything else goes to standard error
  Exit code 5         also where a result that is in no file cannot be written to standard output
"""


@contextlib.contextmanager
def output(argv: Sequence[str]) -> Iterator[tuple[Screen, list[str]]]:
    """Choose the screen of a script, and take what chooses it out of the command line.

    Yields:
        The screen, which :func:`isaaclab_pc.terminal.screen.current` returns inside the block, and the other arguments.

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
