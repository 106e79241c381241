# SPDX-License-Identifier: BSD-3-Clause
"""Tables for people."""

import sys
from collections.abc import Collection, Iterable, Sequence
from typing import IO

from rich.console import Console
from rich.table import Table


def table_console(columns: int, file: IO[str] | None = None) -> Console:
    """Return a console for tables: as wide as the terminal, or else ``columns``, and without markup in cells."""
    # Names of files and values of users, such as ``[wrist,front]``, are no markup.
    width = None if sys.stdout.isatty() else columns
    return Console(file=file, width=width, markup=False, emoji=False)


def make_table(
    title: str, columns: Iterable[str], rows: Iterable[Sequence[str]], numbers: Collection[str] = ()
) -> Table:
    """Return a table under its title; the columns named in ``numbers`` are flush right."""
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table
