# SPDX-License-Identifier: BSD-3-Clause
"""Scripts as users start them, and ``isaaclab-pc``, which does the same; tests/sim/test_wheel.py runs it alone."""

import ast
import importlib.util
import shlex
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

THE_CALL = """\
from isaaclab_pc.commands.{} import main
if __name__ == '__main__':
    raise SystemExit(main())"""


@pytest.fixture
def start(tmp_path):
    """Start a program in an empty folder, where it leaves nothing."""

    def run(*arguments):
        command = [sys.executable, *map(str, arguments)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert list(tmp_path.iterdir()) == []
        return done

    return run


TRAIN = SCRIPTS / "train.py"


@pytest.mark.parametrize(
    "arguments",
    [
        (TRAIN, "task=raech"),
        (TRAIN, "--run", "hydra.run.dir=/proc/nope"),
        ("-m", "isaaclab_pc", "list_tasks", "--al"),
    ],
    ids=["choice", "hydra", "program"],
)
def test_a_wrong_setting_is_one_line(start, arguments):
    done = start(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert (done.stderr.count("\n"), "Traceback" in done.stderr) == (1, False)


@pytest.mark.skipif(importlib.util.find_spec("isaacsim") is not None, reason="Isaac Sim is installed")
def test_isaac_sims_physx_without_isaac_sim_names_what_works(start):
    done = start(TRAIN, "num_envs=8", "physics=isaacsim_physx")
    assert done.returncode == 2
    assert "Isaac Sim" in done.stderr
    assert "physics=newton_mjwarp" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["--help"], "python scripts/train.py"),
        (["--cfg", "job", "task=reach", "env.episode_length_s=3"], "env.episode_length_s=3"),
    ],
)
def test_a_script_explains_itself_and_its_settings_and_trains_nothing(start, arguments, shown):
    done = start(TRAIN, *arguments)
    assert (done.returncode, shown in done.stdout) == (0, True)


def test_every_script_is_a_command():
    assert {path.stem for path in SCRIPTS.glob("*.py")} == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_script_says_what_the_list_says_and_calls_its_command(name):
    program = ast.parse((SCRIPTS / f"{name}.py").read_text(encoding="utf-8"))
    assert (ast.get_docstring(program) or "").startswith(f"{COMMANDS[name]}: python scripts/{name}.py --help")
    assert "\n".join(map(ast.unparse, program.body[1:])) == THE_CALL.format(name)


@pytest.mark.parametrize("argv", [[], ["-h"], ["--help"]])
def test_help_lists_the_commands(capsys, argv):
    assert main(argv) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    for name, what in COMMANDS.items():
        assert any(line.startswith(f"{name} ") and line.endswith(what) for line in lines)


@pytest.mark.parametrize(("name", "near"), [("trian", "train?"), ("new-task", "new_task"), ("x", "known: demo,")])
def test_an_unknown_command_is_refused(capsys, name, near):
    assert main([name]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {name} ")
    assert near in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_shows_it_as_it_was_started(capsys, name):
    assert main([name, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"\n  isaaclab-pc {name}" in text
    assert "scripts/" not in text


def test_a_command_that_was_started_as_a_script_is_one_again(capsys):
    assert main(["play", "task=raech"]) == 2
    assert "isaaclab-pc list_tasks" in capsys.readouterr().err
    assert play.main(["--help"]) == 0
    text = capsys.readouterr().out
    assert "scripts/play.py task=lift" in text
    assert "isaaclab-pc" not in text


def test_a_command_line_is_one_that_can_be_typed(monkeypatch):
    assert shlex.split(command_line("play", "resume=a b")) == ["python", "scripts/play.py", "resume=a b"]
    with started_as_program():
        assert command_line("play", Path("a/scripts/play.py")).split() == ["isaaclab-pc", "play", "a/scripts/play.py"]

    monkeypatch.setattr(program_name, "in_repository", lambda: False)
    assert command_line("play") == "isaaclab-pc play"


def test_a_worker_names_the_command_that_the_user_typed(capfd):
    program = "from isaaclab_pc.terminal import program_name as p; print(p.command_line('replay', 'dump=a.npz'))"
    worker = [sys.executable, "-c", program]
    with started_as_program():
        assert run_child(worker) == 0
    assert capfd.readouterr().out.split() == ["isaaclab-pc", "replay", "dump=a.npz"]
    assert run_child(worker) == 0
    assert capfd.readouterr().out.split() == ["python", "scripts/replay.py", "dump=a.npz"]


def test_without_the_repository_no_task_is_written_into_the_installed_package(monkeypatch, capsys):
    monkeypatch.setattr(new_task, "in_repository", lambda: False)
    monkeypatch.setattr(new_task, "new_task", lambda *_: pytest.fail("written"))
    assert main(["new_task", "press_button"]) == 2
    assert "pip install" in capsys.readouterr().err
