# SPDX-License-Identifier: BSD-3-Clause
"""``isaaclab-pc <command>``, or ``python -m isaaclab_pc <command>``: the scripts, where there is no repository."""

import importlib
import sys
from collections.abc import Sequence

from isaaclab_pc.commands import COMMANDS
from isaaclab_pc.errors import closest
from isaaclab_pc.terminal.program_name import PROGRAM, started_as_program
from isaaclab_pc.terminal.user_stream import standard_streams

_LIST = "\n".join(f"  {name:12} {what}" for name, what in COMMANDS.items())

HELP = f"""\
Reinforcement learning of manipulation on depth-camera point clouds, with Isaac Lab.

  {PROGRAM} <command> [key=value ...]

Commands
{_LIST}

{PROGRAM} <command> --help shows what a command takes. Files are written below logs/ in the working directory.
"""

# As launch.child_process.ExitCode, which would load much for a line of help.
_REFUSED = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        argv: The command's name and its arguments; None: those of this process.

    Returns:
        The exit code: that of the command; 2 where there is no such command.
    """
    name, *arguments = (sys.argv[1:] if argv is None else argv) or ["--help"]
    if name in ("-h", "--help"):
        with standard_streams():
            print(HELP, end="")
        return 0
    if name not in COMMANDS:
        with standard_streams():
            print(f"error: {name} is not a command: {closest(name, COMMANDS)} See {PROGRAM} --help.", file=sys.stderr)
        return _REFUSED
    with started_as_program():
        return importlib.import_module(f"isaaclab_pc.commands.{name}").main(arguments)


if __name__ == "__main__":
    sys.exit(main())
