# SPDX-License-Identifier: BSD-3-Clause
"""Tables for people."""

from __future__ import annotations

import sys
from typing import IO

from rich.console import Console

__all__ = ["table_console"]


def table_console(columns: int, file: IO[str] | None = None) -> Console:
    """Return what prints tables, as wide as the terminal.

    Their cells are shown as they are: names of files and values of users, such as ``[wrist,front]``, are no markup.

    Args:
        columns: The width where standard output is no terminal.
        file: Where to; None: to standard output.
    """
    width = None if sys.stdout.isatty() else columns
    return Console(file=file, width=width, markup=False, emoji=False)
