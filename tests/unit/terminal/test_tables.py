# SPDX-License-Identifier: BSD-3-Clause
import io

import pytest
from rich.table import Table

from isaaclab_pc.terminal.tables import table_console


@pytest.mark.parametrize("text", ["[wrist,front]", "old[/x]", "a:cat:b", "[bold]x[/bold]"])
def test_titles_headings_and_cells_are_shown_as_they_are(text: str) -> None:
    table = Table(title=f"title {text}")
    table.add_column(f"heading {text}")
    table.add_row(f"cell {text}")
    shown = io.StringIO()
    table_console(80, shown).print(table)
    assert all(f"{place} {text}" in shown.getvalue() for place in ("title", "heading", "cell"))
