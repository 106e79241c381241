# SPDX-License-Identifier: BSD-3-Clause
"""Slips of a command line: what is refused for what it looks like, and what is meant."""

import os
import re

import pytest

from isaaclab_pc import commands
from isaaclab_pc.cli.command_line import parse_command, split_own
from isaaclab_pc.cli.spelling import check_form, check_spelling
from isaaclab_pc.commands import compare, demo, list_tasks, play, replay, scale, train, tune, view
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.settings.base import ScriptSettings

SCRIPTS = [compare, demo, list_tasks, play, replay, scale, train, tune, view]


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["num_envs", "=", "16"], "num_envs=16"),
        (["num_envs", "=16"], "num_envs=16"),
        (["seed=1", "task", "=", "lift"], "task=lift"),
        (["num_envs =16"], "num_envs=16"),
        ([" num_envs=16"], "num_envs=16"),
        (["points.crop=[[-1,", "1],", "[0,", "1]]"], "points.crop=[[-1,1],[0,1]]"),
        (["-m", "seed=1,", "2,", "3"], "seed=1,2,3"),
        (["seed=range(1,", "3)"], "seed=range(1,3)"),
        (["num_envs=16\r"], "num_envs=16"),
        (["--plan\r"], "--plan"),
        (["out=result\n"], "out=result"),
        (["num_envs=16\N{NO-BREAK SPACE}"], "num_envs=16"),
        (["\N{ZERO WIDTH NO-BREAK SPACE}num_envs=16"], "num_envs=16"),
        (["num_envs\N{FULLWIDTH EQUALS SIGN}16"], "num_envs=16"),
        (["\N{LATIN SMALL LIGATURE FI}le=a.hdf5"], "file=a.hdf5"),
        (["\N{EN DASH}num_envs=16"], "num_envs=16"),
        (["\N{EM DASH}plan"], "--plan"),
        (["env.a=\N{MINUS SIGN}1"], "env.a=-1"),
        (["task=\N{LEFT DOUBLE QUOTATION MARK}lift\N{RIGHT DOUBLE QUOTATION MARK}"], "task=lift"),
        (["task=`lift`"], "task=lift"),
        (["out=~/result"], f"out={os.path.expanduser('~')}/result"),
        (["~/result"], f"{os.path.expanduser('~')}/result"),
    ],
    ids=ascii,
)
def test_what_is_meant_is_said(arguments, meant):
    with pytest.raises(ConfigError) as error:
        check_spelling(arguments)
    assert re.search(rf"(^|[ ']){re.escape(meant)}'?\.$", str(error.value)), error.value
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__.rpartition(".")[2])
@pytest.mark.parametrize("arguments", [["seed", "=", "16"], ["seed=16\r"], ["\N{EN DASH}seed=16"]], ids=ascii)
def test_every_script_says_it_on_one_line_with_exit_code_2(script, arguments, capsys):
    assert script.main(arguments) == 2
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert "seed=16" in line


def test_no_script_is_left_out():
    names = {script.__name__.rpartition(".")[2] for script in SCRIPTS}
    # export, report and new_task run the same function, behind a check of what is installed or named.
    assert names | {"export", "report", "new_task"} == set(commands.COMMANDS)


def test_nothing_before_an_equals_sign_is_no_name():
    for arguments in (["=16"], ["=", "16"], ["seed=1", "=", "16"]):
        with pytest.raises(ConfigError, match="no name before ="):
            check_spelling(arguments)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "a = b",
            "=",
            "=b",
            "a=",
            "it's",
            "[old",
            "a,",
            "~x",
            "a\r",
            "\N{EN DASH}",
            "\N{LEFT DOUBLE QUOTATION MARK}a",
        ),
        *("k\N{LATIN SMALL LETTER U WITH DIAERESIS}che", "\N{CJK UNIFIED IDEOGRAPH-6F22}", os.fsdecode(b"caf\xe9")),
    ],
    ids=ascii,
)
def test_what_is_there_may_have_any_name(name, tmp_path):
    (tmp_path / name).mkdir()
    check_spelling([name, f"out={name}" if name != "a = b" else name, "seed=1"])
    check_form(name, ["seed"])


@pytest.mark.parametrize(
    "arguments",
    [
        ["-m", "seed=1,2", "task=lift"],
        ["out=a b/c", "run 1", "run 2"],
        ["out=k\N{LATIN SMALL LETTER U WITH DIAERESIS}che/\N{CJK UNIFIED IDEOGRAPH-6F22}"],
        ["out=\N{FULLWIDTH LATIN CAPITAL LETTER A}", os.fsdecode(b"out=caf\xe9")],
        ["env.a='x = y'", "env.b=[1, 2]", "env.c=-1", "env.d=~", "+hydra.launcher.additional_parameters.nice=0"],
        ["resume=a=b", "teacher=it's", "resume=runs/(1", "seed=1"],
        ["--plan", "-c", "job", "points.crop=[[-1,1],[0,1],[0,1]]"],
    ],
    ids=ascii,
)
def test_what_is_right_is_left_alone(arguments):
    check_spelling(arguments)


@pytest.mark.parametrize(
    ("argument", "meant"),
    [
        ("points.crop:[0,1]", "points.crop=[0,1]"),
        ("num_envs: 16", "num_envs=16"),
        ("num_envs", "num_envs=<value>"),
        ("--num-envs", "num_envs=<value>"),
        ("--num-envs=16", "num_envs=16"),
        ("--quiet", "quiet=<value>"),
        ("lift", "task=lift"),
        ("latest", "resume=latest"),
        ("json", "--json?"),
        ("~points.crop", "key=value"),
        ("num_envs==16", "num_envs=16"),
    ],
)
def test_settings_as_other_programs_have_them_are_written_key_value(argument, meant):
    with pytest.raises(ConfigError) as error:
        parse_command([argument])
    assert meant in str(error.value)
    assert "known:" not in str(error.value)
    assert "did you mean" not in str(error.value) or meant.startswith("--")


def test_a_path_alone_is_meant_for_the_setting_of_the_script_that_takes_one(tmp_path, capsys):
    (tmp_path / "run").mkdir()
    for script, key in ((play, "resume"), (view, "policy"), (replay, "dump"), (demo, "file"), (train, "resume")):
        assert script.main(["run"]) == 2
        assert f"{key}=run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argument", "reason"),
    [
        ("task=lift,", "comma at its end"),
        ("task=lift,num_envs=16", "separated by spaces"),
        ("task='lift", "quote is not closed"),
        ("points.crop=[0,1]]", "bracket is not closed"),
        ("num_envs=16;", "; needs quotes"),
        ("task=lift # mine", "# needs quotes"),
        ("num_envs=1\N{FULLWIDTH DIGIT SIX}", "num_envs=16"),
        ("env.a=[1,\N{NO-BREAK SPACE}2]", "no-break space"),
    ],
    ids=ascii,
)
def test_what_cannot_be_read_is_said_in_words_of_the_command_line(argument, reason):
    with pytest.raises(ConfigError, match=rf"cannot be read: .*{re.escape(reason)}"):
        parse_command([argument])


class Own(ScriptSettings):
    """Settings of one script."""

    steps: int | None = None
    """How many."""

    out: str | None = None
    """Where to."""


@pytest.mark.parametrize("key", ["steps", "out"])
def test_a_variable_of_the_shell_that_is_empty_is_not_taken_for_the_default(key):
    with pytest.raises(ConfigError, match=f"^{key}= has no value"):
        split_own([f"{key}="], Own)
    assert getattr(split_own([f"{key}=null"], Own)[0], key) is None
