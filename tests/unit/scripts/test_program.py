# SPDX-License-Identifier: BSD-3-Clause
"""``isaaclab-pc``, which does what the scripts do; tests/sim/test_wheel.py runs it without the repository."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from isaaclab_pc.__main__ import main
from isaaclab_pc.commands import COMMANDS, new_task, play
from isaaclab_pc.processes.child_process import run_child
from isaaclab_pc.terminal import program_name
from isaaclab_pc.terminal.program_name import command_line, started_as_program

SCRIPTS = Path(__file__).parents[3] / "scripts"


def test_every_script_is_a_command():
    assert {path.stem for path in SCRIPTS.glob("*.py")} == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_script_says_what_the_list_says(name):
    docstring = ast.get_docstring(ast.parse((SCRIPTS / f"{name}.py").read_text(encoding="utf-8"))) or ""
    assert docstring.startswith(f"{COMMANDS[name]}: python scripts/{name}.py --help")


@pytest.mark.parametrize("argv", [[], ["-h"], ["--help"]])
def test_help_lists_the_commands(capsys, argv):
    assert main(argv) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    for name, what in COMMANDS.items():
        assert any(line.startswith(f"{name} ") and line.endswith(what) for line in lines)


@pytest.mark.parametrize(
    ("name", "near"),
    [("trian", "did you mean train?"), ("new-task", "did you mean new_task"), ("x", "known: compare,")],
)
def test_an_unknown_command_is_refused(capsys, name, near):
    assert main([name]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {name} is not a command: {near}")
    assert error.count("\n") == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_shows_it_as_it_was_started(capsys, name):
    assert main([name, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"\n  isaaclab-pc {name}" in text
    assert "scripts/" not in text


def test_a_script_says_python_again(capsys):
    main(["play", "--help"])
    capsys.readouterr()
    assert play.main(["--help"]) == 0
    text = capsys.readouterr().out
    assert "python scripts/play.py task=lift" in text
    assert "isaaclab-pc" not in text


def test_errors_name_the_command_to_type(capsys):
    assert main(["play", "task=raech"]) == 2
    assert "isaaclab-pc list_tasks shows all." in capsys.readouterr().err


def test_a_module_is_started_like_the_program(tmp_path):
    command = [sys.executable, "-m", "isaaclab_pc", "list_tasks", "--al"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: --al is not an option")


def test_a_command_line_is_one_that_can_be_typed(monkeypatch):
    assert command_line("play", "resume=a b") == "python scripts/play.py 'resume=a b'"
    with started_as_program():
        assert command_line("play", Path("runs/scripts/play.py")) == "isaaclab-pc play runs/scripts/play.py"

    monkeypatch.setattr(program_name, "in_repository", lambda: False)
    assert command_line("play") == "isaaclab-pc play"


def test_a_worker_names_the_command_that_the_user_typed(capfd):
    program = "from isaaclab_pc.terminal import program_name as p; print(p.command_line('replay', 'dump=a.npz'))"
    worker = [sys.executable, "-c", program]
    with started_as_program():
        assert run_child(worker) == 0
    assert capfd.readouterr().out == "isaaclab-pc replay dump=a.npz\n"
    assert run_child(worker) == 0
    assert capfd.readouterr().out == "python scripts/replay.py dump=a.npz\n"


def test_without_the_repository_no_task_is_written_into_the_installed_package(monkeypatch, capsys):
    monkeypatch.setattr(new_task, "in_repository", lambda: False)
    monkeypatch.setattr(new_task, "new_task", lambda *_: pytest.fail("written"))
    assert main(["new_task", "press_button"]) == 2
    assert "pip install -e ." in capsys.readouterr().err
