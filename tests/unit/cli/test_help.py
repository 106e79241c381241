# SPDX-License-Identifier: BSD-3-Clause
"""Help: the page of the docs, and the tables of ``--help``."""

from pathlib import Path

import pytest

from isaaclab_pc.cli.command_line import keys_of
from isaaclab_pc.cli.help import settings_page, settings_table
from isaaclab_pc.commands import demo, play, replay, scale, train, view
from isaaclab_pc.settings.base import settings_of
from isaaclab_pc.settings.run import SETTINGS

ROOT = Path(__file__).resolve().parents[3]


def names(table: str) -> list[str]:
    """The settings of a table, in its order: they stand alone at two spaces."""
    return [line.split()[0] for line in table.splitlines() if line.startswith("  ") and line[2] != " "]


def test_the_page_of_the_docs_is_the_present_one():
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert page == settings_page(), "run: python -m isaaclab_pc.cli.help > docs/settings.md"


def test_the_table_names_every_setting_once():
    assert sorted(names(settings_table())) == sorted(SETTINGS)
    assert max(map(len, settings_table().splitlines())) <= 118


def test_the_table_says_default_meaning_unit_and_bounds():
    table = settings_table()
    assert "  physics.dt                     null         Physics step." in table
    assert "Takes a number from 1e-05 to 0.1 s." in " ".join(table.split())
    assert "\nTime steps, solver iterations and limits." in table, "each group has its title"


def test_the_table_does_not_say_twice_what_a_setting_takes():
    text = " ".join(settings_table().split())
    assert "for tasks of other packages, default. obs" in text
    assert "Takes text" not in text
    assert text.count("a run's folder or checkpoint") == 1


def test_settings_of_a_script_stand_under_a_title_of_their_own():
    table = settings_table(keys_of("seed"), demo.DemoSettings)
    assert table.startswith("Settings of a recording besides those of a run.\n  episodes ")
    assert "\n\nThe run\n  seed " in table


@pytest.mark.parametrize(
    ("command", "own", "may_change"),
    [
        (demo, demo.DemoSettings, demo.MAY_CHANGE),
        (replay, replay.ReplaySettings, replay.MAY_CHANGE),
        (play, None, (*play.SELECTS, "resume", *play.MAY_CHANGE)),
        (view, view.ViewSettings, (*view.SELECTS, *view.MAY_CHANGE)),
        (scale, None, None),
        (train, None, None),
    ],
)
def test_the_help_of_the_others_names_what_they_take_and_nothing_else(capsys, command, own, may_change):
    assert command.main(["--help"]) == 0
    text = capsys.readouterr().out
    takes = keys_of(*may_change) if may_change else lambda key: True
    shown = {key for key in SETTINGS if f"\n  {key} " in text}
    expected = {key for key in SETTINGS if takes(key)}
    assert shown - set(settings_of(own) if own else ()) <= expected
    assert expected <= shown
    assert [name for name in (settings_of(own) if own else ()) if f"\n  {name} " not in text] == []
