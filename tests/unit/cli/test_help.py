# SPDX-License-Identifier: BSD-3-Clause
"""Help: the page of the docs, and the tables of ``--help``."""

from pathlib import Path

from isaaclab_pc.cli.command_line import keys_of
from isaaclab_pc.cli.help import settings_page, settings_table
from isaaclab_pc.commands import demo
from isaaclab_pc.settings.run import SETTINGS

ROOT = Path(__file__).resolve().parents[3]


def names(table: str) -> list[str]:
    """The settings of a table, in its order: they stand alone at two spaces."""
    return [line.split()[0] for line in table.splitlines() if line.startswith("  ") and line[2] != " "]


def test_the_page_of_the_docs_is_the_present_one():
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert page == settings_page(), "run: python -m isaaclab_pc.cli.help > docs/settings.md"


def test_the_table_names_every_setting_once_with_default_meaning_unit_and_bounds():
    table = settings_table()
    assert sorted(names(table)) == sorted(SETTINGS)
    assert max(map(len, table.splitlines())) <= 118
    row = table.partition("\n  physics.dt ")[2].split()
    assert row[0] == "null"
    assert row[row.index("1e-05") :][:4] == ["1e-05", "to", "0.1", "s."]
    assert "Takes text" not in table, "it says nothing that the meaning does not"


def test_settings_of_a_script_stand_under_a_title_of_their_own():
    table = settings_table(keys_of("seed"), demo.DemoSettings)
    assert table.splitlines()[1].startswith("  episodes ")
    assert "\n  seed " in table
