# SPDX-License-Identifier: BSD-3-Clause
"""The scripts as users start them. What is refused here is refused before anything heavy is loaded."""

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from isaaclab_pc.commands import demo, export, play, replay, scale, train, train_to_end
from isaaclab_pc.processes import child_process
from isaaclab_pc.run import jobs

SCRIPTS = Path(__file__).parents[3] / "scripts"


@pytest.fixture
def script(tmp_path):
    """Run a script in an empty folder."""

    def run(name, *arguments):
        command = [sys.executable, str(SCRIPTS / name), *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    return run


REFUSED = [
    (["task=raech"], "task=raech is not a task: did you mean reach?"),
    (["runner=rslrl"], "runner=rslrl: expected one of rsl_rl, rl_games, skrl, sb3; did you mean rsl_rl or skrl?"),
    (["resume=latest"], "holds no run with a checkpoint"),
    (["scaling.min=9", "scaling.max=3"], "scaling.min=9 is above scaling.max=3."),
    (["-m", "seed=1,2", "num_envs=8,0"], "num_envs=0: expected"),
    (["seed=4294967296"], "seed=4294967296: expected a whole number from 0 to 4,294,967,295."),
    (["--run", "hydra.run.dir=/proc/nope"], "hydra.run.dir=/proc/nope: "),
    (["-m", "hydra.sweep.dir=/proc/nope", "seed=1,2"], "hydra.sweep.dir=/proc/nope: "),
    (["points.crop=[[100,101],[0,1],[0,1]]"], "points.crop=[[100, 101], [0, 1], [0, 1]]: expected null, or [[x0,x1]"),
    (["resume=" + "x" * 3000], "resume=xxx"),
    (["env.a=[1"], "env.a=[1 cannot be read"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED, ids=lambda value: str(value)[:60])
def test_wrong_settings_are_one_line_that_names_them(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(train_to_end, "supervise", lambda *_, **__: pytest.fail("a child was started"))
    assert train.main(arguments) == 2
    output = capsys.readouterr()
    assert output.err.startswith("error: ")
    assert message in output.err
    assert (output.err.count("\n"), "Traceback" in output.err) == (1, False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [["task=raech"], ["--run", "hydra.run.dir=/proc/nope"]], ids=["choice", "hydra"])
def test_a_real_process_says_the_same(script, tmp_path, arguments):
    done = script("train.py", *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert (done.stderr.count("\n"), "Traceback" in done.stderr, done.stdout) == (1, False, "")
    assert list(tmp_path.iterdir()) == []


LONG = "x" * 3000


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (play, [f"resume={LONG}"]),
        (export, [f"run={LONG}"]),
        (export, ["run=/etc/passwd"]),
        (replay, ["dump=/etc/passwd"]),
        (demo, ["episodes=" + "9" * 5000]),
        (demo, ["task=reach", f"file={LONG}.hdf5"]),
        (demo, ["task=reach", "file=/proc/a.hdf5"]),
        (scale, ["--stability", "eval.episodes=0"]),
    ],
    ids=lambda value: str(value)[:60],
)
def test_the_other_scripts_refuse_in_one_line_too(tmp_path, monkeypatch, capsys, command, arguments):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(child_process, "run_child", lambda *_, **__: pytest.fail("a child was started"))
    monkeypatch.setattr(jobs, "run_child", lambda *_, **__: pytest.fail("a child was started"))
    assert command.main(["device=cpu", *arguments]) == 2
    output = capsys.readouterr().err
    assert output.startswith("error: ")
    assert (output.count("\n"), "Traceback" in output) == (1, False)
    assert [path for path in tmp_path.rglob("*") if not path.is_dir()] == []


@pytest.mark.skipif(importlib.util.find_spec("isaacsim") is not None, reason="Isaac Sim is installed")
def test_isaac_sims_physx_without_isaac_sim_says_what_to_install_and_what_works(script, tmp_path):
    done = script("train.py", "num_envs=8", "physics=isaacsim_physx")
    assert done.returncode == 2
    assert "install Isaac Lab together with Isaac Sim" in done.stderr
    assert "physics=newton_mjwarp" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_script_explains_itself(script, tmp_path):
    done = script("train.py", "--help")
    assert (done.returncode, "python scripts/train.py" in done.stdout) == (0, True)
    assert list(tmp_path.iterdir()) == []


def test_printing_the_composed_settings_trains_nothing(script, tmp_path):
    done = script("train.py", "--cfg", "job", "task=reach", "env.episode_length_s=3")
    assert done.returncode == 0
    assert "env.episode_length_s=3" in done.stdout
    assert list(tmp_path.iterdir()) == []


THE_CALL = """import sys
from isaaclab_pc.commands.{} import main
if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))"""


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.py")), ids=lambda path: path.name)
def test_scripts_call_their_command_and_do_nothing_else(path):
    program = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(program)
    assert "\n".join(map(ast.unparse, program.body[1:])) == THE_CALL.format(path.stem)
