# SPDX-License-Identifier: BSD-3-Clause
"""Tables for people."""

import sys
from typing import IO

from rich.console import Console


def table_console(columns: int, file: IO[str] | None = None) -> Console:
    """Return a console for tables: as wide as the terminal, or else ``columns``, and without markup in cells."""
    # Names of files and values of users, such as ``[wrist,front]``, are no markup.
    width = None if sys.stdout.isatty() else columns
    return Console(file=file, width=width, markup=False, emoji=False)
